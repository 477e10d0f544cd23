#!/usr/bin/env bash
# header.sh <compiler> <response file> <header> [flag...]: does the header compile alone?
# Twice in one file, which also catches a missing include guard.
set -euo pipefail
compiler=$1 flags=$2 header=$3
shift 3
printf '#include <%s>\n#include <%s>\n' "$header" "$header" | "$compiler" "@$flags" "$@" -x c++ -
