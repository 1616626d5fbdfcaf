#!/bin/bash
# Entry of runcmd: runs the GPU step within a time limit and keeps its result.
#
# Always exits 0. The commands of runcmd are one script: if another of them has said `set -e`,
# a status of ours would keep the node from joining. The result is one line, in the marker
# /run/capvco/gpu.status, at the end of /var/log/capvco-gpu.log, and on the console.
set -u
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=src/capvco/bootstrap/scripts/lib.sh
. "$HERE/lib.sh"
umask 022
mkdir -p "$STATE" "$(dirname "$KEPT")" "$(dirname "$LOG")"
load_settings
rm -f "$FAILURE" "$SUSPECT" "$STATUS"

started=$SECONDS
timeout --kill-after=30 "${CAPVCO_GPU_TIMEOUT:-1500}" bash "$HERE/install.sh"
code=$?

if ((code == 0)); then
  result='ok verify -'
  words=
elif [[ -s $FAILURE ]]; then
  read -r step cause words <"$FAILURE"
  result="failed $step $cause"
else
  last=$(cat "$STATE/gpu.step" 2>/dev/null || printf 'start')
  case $code in
    124 | 137)
      result="failed $last TimedOut"
      words="not done after ${CAPVCO_GPU_TIMEOUT:-1500} s; the log says how far it came" ;;
    *)
      result="failed $last Crashed"
      words="ended with status $code and no word; the log may say more" ;;
  esac
fi
branch=$(loaded_branch)
result+=" branch=${branch:--} cards=$(count_visible) bus=$(count_cards)${words:+: $words}"
printf '%s\n' "$result" >"$STATUS"
printf '%s\n' "$result" >"$KEPT"
say "GPU step: $result"
say "GPU step: took $((SECONDS - started)) s; status $code; log: $LOG"
exit 0
