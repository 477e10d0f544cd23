#!/bin/bash
# The shared libraries of a stage export names of their public headers, and no others but instances of templates of other
# libraries. exports.sh <nm> <stage>
set -euo pipefail
nm=$1 stage=$2
shopt -s nullglob
libraries=("$stage"/lib*/liblinchpin-*.so "$stage"/lib/*/liblinchpin-*.so)
((${#libraries[@]} > 0)) || { echo "no shared library in $stage" >&2; exit 1; }
wrong=0
for library in "${libraries[@]}"; do
  # A name is public if headers have each word of it. Headers of all libraries will do: names are not shared by accident.
  others=$("$nm" -DC --defined-only "$library" | awk '
    FNR == NR { public[$1]; next }
    function is_public(name,    words, count, i) {
      count = split(name, words, /[^A-Za-z_0-9]+/)
      for (i = 1; i <= count; ++i) if (words[i] != "" && !(words[i] in public)) return 0
      return 1
    }
    {
      weak = $2 ~ /[VWu]/
      sub(/^[^ ]* *[^ ] /, "")
      name = $0
      sub(/^(typeinfo|typeinfo name|vtable|guard variable|VTT) for /, "", name)
      good = weak
      if (name ~ /^linchpin::/) {
        ++names
        sub(/\(.*/, "", name)
        sub(/\[abi:.*/, "", name)
        good = is_public(name)
      } else {  # an instance for types of linchpin
        while (match(name, /linchpin::[A-Za-z_0-9:]*/)) {
          if (!is_public(substr(name, RSTART, RLENGTH))) good = 0
          name = substr(name, RSTART + RLENGTH)
        }
      }
      if (!good) print
    }
    END { if (names == 0) print "nothing at all" }' \
    <(cat "$stage"/include/linchpin/*.h "$stage"/include/linchpin/*/*.h | sed 's,//.*,,' |
      grep -oE '[A-Za-z_][A-Za-z_0-9]*' | sort -u) -)
  if [[ $others ]]; then
    printf '%s exports\n%s\n' "$library" "$others"
    wrong=1
  fi
done
exit $wrong
