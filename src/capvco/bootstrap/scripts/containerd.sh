#!/bin/bash
# The runtime "nvidia" in containerd, by NVIDIA's own tool, proven by what containerd then has.
#
# nvidia-ctk writes into a copy; what it says of the CRI plugin becomes the drop-in 99-nvidia.toml.
# The main file is touched only to import the drop-in folder, to enable the CRI plugin, or where no
# drop-in can work. `containerd config dump` is the judge, of the runtime and of everything else: a
# setting that would be lost sends everything back to where it was.
set -u
STEP=containerd
HERE=$(dirname "$(readlink -f "$0")")
# shellcheck source=src/capvco/bootstrap/scripts/gpu.sh
. "$HERE/gpu.sh"
load_settings
MAIN=$ROOT/etc/containerd/config.toml
DROPIN=$DROPIN_DIR/99-nvidia.toml
WORK=$(mktemp -d "$STATE/containerd.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
CRI_1='plugins."io.containerd.grpc.v1.cri"'
CRI_2='plugins."io.containerd.cri.v1.runtime"'

toml() {
  awk -f "$HERE/toml.awk" "$@"
}

dump() {
  containerd --config "$MAIN" config dump 2>"$WORK/dump.err"
}

containerd_said() {
  grep -v 'level=warning' "$WORK/dump.err" | tail -n 1 | cut -c 1-300
}

# Where the CRI plugin's settings are, in the schema of a dump.
cri_table() {
  if grep -qE "plugins\.[\"']io\.containerd\.cri\.v1\.runtime[\"']" "$1"; then
    printf '%s' "$CRI_2"
  else
    printf '%s' "$CRI_1"
  fi
}

# value FLAT TABLE KEY: one setting of a flattened dump, without its quotes.
value() {
  awk -v wanted="$2|$3=" 'index($0, wanted) == 1 {
    text = substr($0, length(wanted) + 1); gsub(/^["\047]|["\047]$/, "", text); print text; exit
  }' "$1"
}

# Say what the effective configuration lacks; nothing if a pod with the runtime could start.
lacking() {
  local table runtimes type runc nvidia binary
  toml -v mode=flat "$1" >"$WORK/flat"
  table=$(cri_table "$1")
  runtimes=$table.containerd.runtimes
  type=$(value "$WORK/flat" "$runtimes.nvidia" runtime_type)
  binary=$(value "$WORK/flat" "$runtimes.nvidia.options" BinaryName)
  runc=$(value "$WORK/flat" "$runtimes.runc.options" SystemdCgroup)
  nvidia=$(value "$WORK/flat" "$runtimes.nvidia.options" SystemdCgroup)
  if toml -v mode=items -v key=disabled_plugins "$1" | grep -qE '(^|\.)cri(\.|$)'; then
    printf 'the CRI plugin is disabled'
  elif [[ -z $type ]]; then
    printf 'the runtime nvidia is not there, or has no runtime_type'
  elif [[ -z $binary ]]; then
    printf 'the runtime nvidia has no BinaryName'
  elif [[ $runc == true && $nvidia != true ]]; then
    printf 'the runtime nvidia has lost SystemdCgroup, which runc has'
  elif [[ ! -x $ROOT$binary ]] && ! has "$binary"; then
    printf 'the program %s of the runtime nvidia does not exist' "$binary"
  fi
}

# Say which setting of before is no more as it was; nothing if all of them are.
changed_setting() {
  toml -v mode=flat "$1" | grep -vE '^\|(imports|disabled_plugins|version)=' | sort >"$WORK/was"
  toml -v mode=flat "$2" | sort >"$WORK/is"
  comm -23 "$WORK/was" "$WORK/is" | grep -vF '.runtimes.nvidia' | head -n 1
}

set_array() {
  local key=$1 text='' item
  shift
  for item in "$@"; do
    text+="${text:+, }\"$item\""
  done
  toml -v mode=array -v key="$key" -v value="[$text]" \
    -v present="$(has_key "$key")" \
    "$MAIN" | install_file "$MAIN" && say "containerd: $key = [$text]"
}

has_key() {
  awk '/^[ \t]*\[/ { exit } { print }' "$MAIN" | grep -qE "^[[:space:]]*[\"']?$1[\"']?[[:space:]]*=" &&
    printf 1
}

import_dropins() {
  local entries
  mapfile -t entries < <(toml -v mode=items -v key=imports "$MAIN")
  if ! covered "${entries[@]}"; then
    set_array imports "${entries[@]}" "$DROPIN_DIR/*.toml"
  fi
}

# Whether one of the imports reads the drop-in. Relative ones are relative to the main file, but
# for patterns in 1.x, which are relative to wherever the daemon was started.
covered() {
  local entry
  for entry in "$@"; do
    if [[ $entry != /* ]]; then
      [[ $entry != *[*?[]* ]] || is_2 || continue
      entry=$ROOT/etc/containerd/${entry#./}
    fi
    # shellcheck disable=SC2053 # a pattern is what an import is
    [[ $DROPIN != $entry ]] || return 0
  done
  return 1
}

enable_cri() {
  local entries kept=() entry
  mapfile -t entries < <(toml -v mode=items -v key=disabled_plugins "$MAIN")
  for entry in "${entries[@]}"; do
    case $entry in
      cri | io.containerd.grpc.v1.cri | io.containerd.cri.v1.*) ;;
      *) kept+=("$entry") ;;
    esac
  done
  if ((${#kept[@]} < ${#entries[@]})); then
    set_array disabled_plugins "${kept[@]}"
  fi
}

is_2() {
  [[ $(containerd --version) =~ \ v?([2-9]|[1-9][0-9]+)\.[0-9] ]]
}

# A main file that says nothing gets the least that a node needs: one runtime, cgroups by systemd.
begin_main() {
  local version=2 table=$CRI_1
  if is_2; then
    version=3 table=$CRI_2
  fi
  {
    cat "$MAIN" 2>/dev/null
    cat <<EOF
version = $version

[$table.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[$table.containerd.runtimes.runc.options]
  SystemdCgroup = true
EOF
  } | install_file "$MAIN" && say "containerd: $MAIN said nothing; written, with SystemdCgroup"
}

# Print what nvidia-ctk makes of a file, as far as the CRI plugin goes. Fails with its status.
dropin_from() {
  local options=() made=$WORK/source.toml
  cp "$1" "$made"
  rm -f "$WORK/made.toml"
  # Older versions know files only, newer ones forget the runtime without a drop-in.
  if nvidia-ctk runtime configure --help 2>&1 | grep -q -- '--drop-in-config'; then
    options+=(--drop-in-config="$WORK/made.toml")
  fi
  quietly nvidia-ctk runtime configure --runtime=containerd --config="$made" "${options[@]}" ||
    return 1
  [[ ! -s $WORK/made.toml ]] || made=$WORK/made.toml
  toml -v mode=sections -v table="$(cri_table "$made")" "$made" | with_runtime_type
}

# Some versions of the tool leave it out in the newer schemas, and a runtime without it is none.
with_runtime_type() {
  awk '{ lines[NR] = $0 } /^[ \t]*runtime_type/ && inside { typed = 1 }
    /^[ \t]*\[/ { inside = ($0 ~ /runtimes\.nvidia\][ \t]*$/); if (inside) at = NR }
    END { for (i = 1; i <= NR; i++) {
      print lines[i]
      if (i == at && !typed) print "runtime_type = \"io.containerd.runc.v2\""
    } }'
}

# One way to a working configuration: a drop-in made of the settings in effect (1.x replaces whole
# sections, so it must repeat them), or of the main file alone. False, and why in PROBLEM, if it
# is none.
attempt() {
  local source=$MAIN
  PROBLEM=
  import_dropins
  enable_cri
  if [[ $1 == effective ]]; then
    source=$WORK/effective.toml
    dump >"$source"
  fi
  if ! dropin_from "$source" >"$WORK/dropin.toml"; then
    PROBLEM="nvidia-ctk failed: $(tail -n 1 "$LOG" | cut -c 1-300)"
    return 1
  fi
  install_file "$DROPIN" <"$WORK/dropin.toml" || true
  if ! dump >"$WORK/after.toml"; then
    PROBLEM="containerd cannot read the result: $(containerd_said)"
  else
    PROBLEM=$(lacking "$WORK/after.toml")
  fi
  if [[ -z $PROBLEM && -s $WORK/before.toml ]]; then
    PROBLEM=$(changed_setting "$WORK/before.toml" "$WORK/after.toml")
    PROBLEM=${PROBLEM:+a setting would be lost: $PROBLEM}
  fi
  [[ -z $PROBLEM ]]
}

keep_aside() {
  rm -rf "$WORK/aside"
  mkdir "$WORK/aside"
  [[ ! -e $MAIN ]] || cp -p "$MAIN" "$WORK/aside/main"
  [[ ! -e $DROPIN ]] || cp -p "$DROPIN" "$WORK/aside/dropin"
}

put_back() {
  if [[ -e $WORK/aside/main ]]; then cat "$WORK/aside/main" >"$MAIN"; else rm -f "$MAIN"; fi
  if [[ -e $WORK/aside/dropin ]]; then cat "$WORK/aside/dropin" >"$DROPIN"; else rm -f "$DROPIN"; fi
}

# The main file in the schema of the installed containerd, where no drop-in fits the old one.
convert_main() {
  cp -p "$MAIN" "$MAIN.before-capvco"
  grep -vE '^imports *=' "$WORK/before.toml" | install_file "$MAIN" &&
    say "NOTE: $MAIN is written anew in containerd's own schema; the old one is $MAIN.before-capvco"
}

configure() {
  local first
  empty_dropin
  if grep -qE '^[[:space:]]*[^#[:space:]]' "$MAIN" 2>/dev/null; then
    if ! dump >"$WORK/before.toml"; then
      put_back
      fail ConfigUnreadable "containerd cannot read $MAIN: $(containerd_said)"
    fi
  else
    begin_main
    : >"$WORK/before.toml"
  fi
  attempt effective && return
  first=$PROBLEM
  if [[ -s $WORK/before.toml ]]; then
    say "the settings in effect make no working drop-in ($first); trying those of the main file"
    start_over
    attempt main && return
    say "neither do those of the main file ($PROBLEM); trying a main file in containerd's own schema"
    start_over
    convert_main
    attempt effective && return
    rm -f "$MAIN.before-capvco"
  fi
  put_back
  fail RuntimeNotEffective "containerd has no working runtime nvidia after nvidia-ctk, and is left" \
    "as it was (no runtime for \"nvidia\" is configured): $first"
}

start_over() {
  put_back
  empty_dropin
}

# What our own drop-in of an earlier run says is none of the settings to keep. It is not removed:
# an import of exactly this file would fail.
empty_dropin() {
  if [[ -e $DROPIN ]]; then
    : >"$DROPIN"
  fi
}

wait_active() {
  local until=$((SECONDS + ${CAPVCO_CONTAINERD_WAIT:-60}))
  while ! systemctl is-active --quiet containerd; do
    ((SECONDS < until)) || return 1
    sleep 1
  done
}

restart() {
  if ! quietly systemctl restart containerd || ! wait_active; then
    journalctl -u containerd --no-pager -n 20 >>"$LOG" 2>&1
    put_back
    quietly systemctl restart containerd
    fail ContainerdRefused "containerd does not start with the runtime nvidia, and is left as it" \
      "was: the log has its last words"
  fi
}

unchanged() {
  same "$WORK/aside/main" "$MAIN" && same "$WORK/aside/dropin" "$DROPIN"
}

# Whether the daemon was there before its configuration: then it does not know it yet.
behind() {
  local file socket=$ROOT/run/containerd/containerd.sock
  [[ -e $socket ]] || return 1
  for file in "$MAIN" "$DROPIN_DIR"/*.toml; do
    [[ ! $file -nt $socket ]] || return 0
  done
  return 1
}

same() {
  if [[ -e $1 || -e $2 ]]; then
    cmp -s "$1" "$2"
  fi
}

effective_already() {
  [[ -e $MAIN ]] && dump >"$WORK/now.toml" && [[ -z $(lacking "$WORK/now.toml") ]]
}

# What the running daemon tells of itself, where there is a tool to ask it.
check_served() {
  local said
  has crictl || return 0
  said=$(crictl --runtime-endpoint "unix://$ROOT/run/containerd/containerd.sock" info 2>>"$LOG") ||
    return 0
  if [[ $said != *'"nvidia"'* ]]; then
    fail RuntimeNotEffective "the running containerd does not list the runtime nvidia (no runtime" \
      "for \"nvidia\" is configured), though its configuration has it"
  fi
}

# Why the step that installs Kubernetes has not brought containerd, if that ran and failed.
why_none() {
  sed -n 's/^failed /; the Kubernetes step before this one: /p' "$STATE/kubernetes.status" 2>/dev/null
}

has containerd || fail NoContainerd "containerd is not installed: the image must bring it, or a" \
  "preKubeadmCommand$(why_none)"
keep_aside
if ! effective_already; then
  configure
fi
if ! unchanged || behind || ! systemctl is-active --quiet containerd; then
  restart
fi
check_served
