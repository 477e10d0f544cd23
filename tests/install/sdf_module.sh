#!/bin/bash
# The installed command finds the module that reads SDF files. A command without it says what is missing.
# sdf_module.sh <stage> <folder to work in>
set -euo pipefail
stage=$1 work=$2
rm -rf "$work"
mkdir -p "$work/bin"
echo "<sdf version='1.9'><model name='m'><link name='bob'/></model></sdf>" >"$work/bob.sdf"
"$stage/bin/linchpin" check "$work/bob.sdf"

cp "$stage/bin/linchpin" "$work/bin/"
message=$("$work/bin/linchpin" check "$work/bob.sdf" 2>&1) && { echo "a command without the module has read the file" >&2; exit 1; }
echo "$message"
[[ $message == *"error: SDF files are read by the module linchpin-sdf.so, which cannot be loaded: "*"Add this folder to LD_LIBRARY_PATH"* ]]
