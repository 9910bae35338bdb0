#!/usr/bin/env bash
# The real program on a real X server (Xvfb): it opens two examples, takes keys and a click, and quits of its own accord.
# usage: smoke.sh SIMGUI SCENARIOS; 77 where there is no Xvfb or xdotool: CTest then says that it was skipped.
set -euo pipefail
simgui=$1 scenarios=$2

for tool in Xvfb xdotool; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed (apt-get install xvfb xdotool)"; exit 77; }
done
folder=$(mktemp -d)
server= program=
finish() {
    [[ -z $program ]] || kill "$program" 2>/dev/null || true
    [[ -z $server ]] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
fail() { echo "smoke: $*" >&2; cat "$folder/log" >&2; exit 1; }

Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp 3>"$folder/display" >"$folder/xvfb" 2>&1 &
server=$!
for _ in $(seq 100); do [[ -s $folder/display ]] && break; sleep 0.1; done
[[ -s $folder/display ]] || { echo "skipped: Xvfb does not start: $(tail -n 1 "$folder/xvfb")"; exit 77; }

export DISPLAY=:$(<"$folder/display") QT_QPA_PLATFORM=xcb HOME=$folder XDG_CONFIG_HOME=$folder XDG_DATA_HOME=$folder XDG_CACHE_HOME=$folder XDG_RUNTIME_DIR=$folder
unset WAYLAND_DISPLAY
chmod 700 "$folder"
"$simgui" --new --size 1280x800 --language en "$scenarios/gpt2-124m-1-gpu.json" "$scenarios/llama3-8b-fsdp-8-h100.json" >"$folder/log" 2>&1 &
program=$!

# There is no window manager: who is to have the keys is said here.
focus() {
    local window=
    for _ in $(seq 200); do
        window=$(xdotool search --onlyvisible --pid "$program" --name "$1\$" 2>/dev/null | tail -n 1 || true)
        if [[ -n $window ]] && xdotool windowfocus "$window" 2>/dev/null; then sleep 0.3; return; fi
        kill -0 "$program" 2>/dev/null || fail "the program ended before it showed $1"
        sleep 0.1
    done
    fail "no window $1"
}
focus Orrery
sleep 2   # both are simulated

key() { xdotool key --clearmodifiers "$@"; sleep 0.2; kill -0 "$program" 2>/dev/null || fail "the program ended at the key $*"; }
xdotool mousemove 800 600 click 1
for k in w w s d a period comma f Home c h m bracketright; do key "$k"; done
for n in 1 2 3 4 5 6 7 8 9 0; do key "ctrl+$n"; done     # every view
key ctrl+shift+d                                         # dark
key ctrl+shift+p
focus Commands
xdotool type --delay 20 "copy as"
key Return                                               # a third run
focus Orrery
key question
focus Keys
key Escape
focus Orrery
sleep 1
xdotool key --clearmodifiers ctrl+q || true
for _ in $(seq 100); do kill -0 "$program" 2>/dev/null || break; sleep 0.1; done
if kill -0 "$program" 2>/dev/null; then fail "it does not quit at Ctrl+Q"; fi
code=0
wait "$program" || code=$?
program=
[[ $code -eq 0 ]] || fail "exit code $code"
if grep -viE "propagateSizeHints|XDG_RUNTIME_DIR" "$folder/log" | grep -q .; then fail "it complained"; fi
echo "two examples, $((13 + 10 + 6)) keys, exit 0"
