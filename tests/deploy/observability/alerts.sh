#!/bin/sh
# Alert rules against series that must and must not raise them; exit status 77 where promtool is not installed.
command -v promtool >/dev/null || { echo "skipped: promtool (package prometheus) is not installed"; exit 77; }
cd "$(dirname "$0")" && promtool check rules ../../../deploy/observability/alerts.yaml && promtool test rules alerts_test.yaml
