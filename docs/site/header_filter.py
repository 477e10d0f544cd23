#!/usr/bin/env python3
"""Prepares a header for Doxygen, line by line, so that line numbers stay.

- Names that one declaration declares share its comment: "double a = 0, b = 0;  ///< Mass [kg]." documents both.
- The comment at the top is that of the file, which Doxygen needs to report macros without a comment.
- Copies, moves, comparisons and try_ twins have a standard comment where they have none of their own.
- Members have no designated initialisers, which Sphinx cannot read.
"""
import re
import sys


def split(text):
    """The parts of a text between commas outside of brackets."""
    parts, depth, part = [], 0, ''
    for i, c in enumerate(text):
        depth += (c in '([{<') - (c in ')]}' or (c == '>' and text[i - 1] != '-'))
        if c == ',' and depth == 0:
            parts.append(part.strip())
            part = ''
        else:
            part += c
    return parts + [part.strip()]


def declarators(code):
    """"double a = 0, b = 0;" becomes ["double a = 0;", "double b = 0;"]; other code becomes None."""
    found = re.fullmatch(r'((?:const |inline |static |constexpr |mutable )*(?:[A-Za-z_][\w:]*)(?:<.*?>)?(?: ?[*&])?) *([a-zA-Z_]\w*\b.*);', code)
    if not found or re.match(r'(return|using|friend|typedef|enum|class|struct|template|virtual|case)\b', code):
        return None
    names = split(found[2])
    if len(names) < 2 or '(' in re.sub(r'=.*|\{.*', '', found[2]) or not all(re.match(r'[A-Za-z_]\w*( *=|\{|$)', name) for name in names):
        return None
    return [f'{found[1]} {name};' for name in names]


def standard_comment(code):
    """The comment of a member that every class has, or of the twin of a function that throws (error.h)."""
    twin = re.match(r'(?:LINCHPIN_\w*API )?Result<.*> try_(\w+)\(', code)
    if twin:
        return f'Does what {twin[1]}() does, but returns the error in place of an exception.'
    found = re.match(r'(?:explicit |friend |constexpr )*(?:([\w<>]+)&? )?(operator==|operator!=|operator=|\w+)\((.*?)\)', code)
    if not found or code.startswith('return'):
        return None
    kind, name, arguments = found.groups()
    if name in ('operator==', 'operator!='):
        return f'Returns whether both are {"the same" if name[-2] == "=" else "different"}.'
    if name == 'operator=' or (kind is None and re.fullmatch(rf'(const {name}&|{name}&&)( \w+)?', arguments)):
        what = 'Moves' if '&&' in arguments else 'Copies'
        return f'{what} {"another object to this one" if name == "operator=" else "an object"}.'
    return None


lines = open(sys.argv[1], encoding='utf-8').read().split('\n')
if lines[0].startswith('// '):
    lines[0] = '/** @file */ ' + lines[0]
i = 0
while i < len(lines):
    line = re.sub(r'^( *[A-Za-z_:<>]+ [a-z_]+)( = )?\{\.[^}]*\};', r'\1;', lines[i])
    lines[i] = line
    code, _, after = line.partition('///<')
    standard = standard_comment(code.strip())
    if standard and not after and not re.match(r' *///', lines[i - 1]):
        lines[i] = f'/** {standard} */ {code}'
    parts = declarators(code.strip())
    if parts:
        comment = after.strip()
        last = i
        while comment and last + 1 < len(lines) and re.match(r' *///<', lines[last + 1]):
            last += 1
            comment += ' ' + lines[last].split('///<')[1].strip()
        first = i
        while not comment and first > 0 and re.match(r' *///(?!<)', lines[first - 1]):
            first -= 1
        if not comment:
            comment = ' '.join(above.split('///', 1)[1].strip() for above in lines[first:i])
        if comment:
            for k in range(first, last + 1):
                lines[k] = ''
            lines[i] = ' '.join(f'/** {comment} */ {part}' for part in parts)
        i = last
    i += 1
sys.stdout.write('\n'.join(lines))
