#!/usr/bin/env bash
# A story from a shell, through the gateway with curl, or with the sluice command.
# Usage: story.sh http HOST:PORT | story.sh sluice HOST:PORT
set -euo pipefail

case "${1:-}" in
  http)
    # -N: as it comes. Each event is a line "data: {json}"; python3 takes the text out of it.
    curl -sSN --fail-with-body "http://$2/v1/completions" -H 'content-type: application/json' \
      -d '{"prompt": "Once upon a time", "max_tokens": 60, "temperature": 0.7, "seed": 1, "stream": true}' |
      while IFS= read -r line; do
        case "$line" in 'data: {'*)
          python3 -c 'import json, sys; [print(c["text"], end="") for c in json.loads(sys.argv[1])["choices"]]' "${line#data: }"
          ;;
        esac
      done
    echo
    ;;
  sluice)
    sluice generate --endpoint "$2" --prompt "Once upon a time" --max_tokens 60 --temperature 0.7 --seed 1
    ;;
  *)
    sed -n '3s/^# //p' "$0" >&2
    exit 2
    ;;
esac
