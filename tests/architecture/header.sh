#!/usr/bin/env bash
# header.sh <compiler> <response file> [-flag...] <header>...: do the headers compile, with nothing before them?
# Twice in one file, which also catches a missing include guard.
set -euo pipefail
compiler=$1 flags=$2
shift 2
more=()
while [[ $1 == -* ]]; do
  more+=("$1")
  shift
done
printf '#include <%s>\n' "$@" "$@" | "$compiler" "@$flags" "${more[@]}" -x c++ -
