#!/bin/bash
# Serves the laboratory of out/rdma_lab, which make laboratory builds, and opens it in a browser,
# if this desktop has one. Ctrl-C ends it, or the time FOR does: FOR=2s.
set -euo pipefail
cd "$(dirname "$0")/.."
exec 3< <(exec out/rdma_lab serve)
lab=$!
trap 'kill "$lab" 2>/dev/null || true' EXIT
read -r line <&3
echo "$line"
if [[ -n ${DISPLAY:-}${WAYLAND_DISPLAY:-} ]] && command -v xdg-open >/dev/null; then
	address=${line##*http://}
	xdg-open "http://${address%% *}"
fi
if [[ -n ${FOR:-} ]]; then sleep "$FOR"; else wait "$lab"; fi
