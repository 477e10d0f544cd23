#!/usr/bin/env python3
"""Prints each value of a public enum that has no comment, which Doxygen does not report. check_values.py XML_DIR"""
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

found = set()
for path in Path(sys.argv[1]).glob('*.xml'):
    for compound in ElementTree.parse(path).iter('compounddef'):
        for member in compound.iter('memberdef'):
            if member.get('kind') != 'enum' or member.get('prot') == 'private':
                continue
            place = member.find('location')
            for value in member.iter('enumvalue'):
                if not any(''.join(value.find(part).itertext()).strip() for part in ('briefdescription', 'detaileddescription')):
                    found.add(f'{place.get("file")}:{place.get("line")}: warning: value {member.findtext("name")}::{value.findtext("name")} is not documented.')
print('\n'.join(sorted(found)), end='\n' if found else '')
