#!/usr/bin/env bash
# Installs the library into a folder of its own and builds the example against it, with CMake's package and with
# pkg-config; both programs must find that nobody listens. Usage: installed_test.sh BUILD_DIR
set -euo pipefail
build=$1
example=$(dirname "$0")/../../../clients/cpp/example
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

cmake --install "$build" --component client --prefix "$folder/prefix" >"$folder/install.log"
cmake -S "$example" -B "$folder/story" -DCMAKE_PREFIX_PATH="$folder/prefix" >"$folder/configure.log"
cmake --build "$folder/story" >"$folder/build.log" || { cat "$folder/build.log"; exit 1; }

packages=$(dirname "$(find "$folder/prefix" -name sluice-client.pc)")
# shellcheck disable=SC2046  # the flags are words
PKG_CONFIG_PATH=$packages g++ -std=c++20 -fsyntax-only "$example/story.cc" $(PKG_CONFIG_PATH=$packages pkg-config --cflags sluice-client)
# Linked from the object that CMake has made: compiling it once is enough.
# shellcheck disable=SC2046
g++ $(find "$folder/story" -name 'story.cc.o') $(PKG_CONFIG_PATH=$packages pkg-config --libs sluice-client) -o "$folder/linked"

for program in "$folder/story/story" "$folder/linked"; do
  status=0
  "$program" "unix:$folder/nobody" 2>"$folder/error.txt" || status=$?
  grep -q UNAVAILABLE "$folder/error.txt" && [ "$status" -eq 1 ] || { cat "$folder/error.txt"; exit 1; }
done
