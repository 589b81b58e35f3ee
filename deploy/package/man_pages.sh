#!/bin/sh
# man_pages.sh BIN_DIR OUT_DIR VERSION: one manual page for `sluice`, each of its commands and each service, made from what
# their --help prints.
set -eu
bin=$1 out=$2 version=$3
here=$(dirname "$0")
rm -rf "$out"
mkdir -p "$out"

# page NAME SUMMARY, with the help on stdin
page() {
  awk -v name="$1" -v summary="$2" -v version="$version" -f "$here/man_page.awk" >"$out/$1.1"
  gzip -9n "$out/$1.1"
}

"$bin/sluice" help | page sluice "serve language models as a pipeline of services"
"$bin/sluice" help | sed -n 's/^  \([a-z-]*\)  *\(.*\)$/\1 \2/p' | while read -r command summary; do
  case $command in
    help | version) continue ;;
  esac
  "$bin/sluice" help "$command" | page "sluice-$command" "$summary"
done
for service in tokenizer embedding shard sampler orchestrator gateway; do
  "$bin/sluice-$service" --help | page "sluice-$service" "the $service of a Sluice pipeline"
done
