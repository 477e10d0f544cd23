#!/bin/bash
# The line of README.md that compiles a program against the installed library, run as it stands there but for the names of
# the program and of the prefix, in both precisions. one_line.sh <source folder> <stage> <folder to work in> <compiler>
set -euo pipefail
source=$1 stage=$2 work=$3 compiler=$4
line=$(grep -m1 '^\$ g++ .*-llinchpin' "$source/README.md" | sed 's/^\$ //')
[[ $line == *bullet-float64* ]] || { echo "README.md has no such line for double precision: $line" >&2; exit 1; }
mkdir -p "$work"
for precision in bullet-float64 bullet; do
  scalar=$([[ $precision == bullet ]] && echo float || echo double)
  command=${line//bullet-float64/$precision}
  command=${command//\~\/.local/$stage}
  command=${command/game.cpp/$source/tests/install/bullet/main.cpp -DEXPECTED_SCALAR=$scalar}
  command=${command/-o game/-o $work/game-$precision}
  command=${command/g++/$compiler}
  echo "$command"
  eval "$command"
  LD_LIBRARY_PATH=$stage/lib "$work/game-$precision"  # for shared libraries
done
