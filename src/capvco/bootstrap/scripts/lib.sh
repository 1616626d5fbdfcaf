# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the scripts that source it
# Common ground of the GPU scripts: settings, lines for a person, how a step fails, apt.
#
# CAPVCO_ROOT puts every file below another root. Settings are read from /etc/capvco/gpu.env, which
# the provider writes, and then from /etc/capvco/gpu.d/*.env, which are yours.

ROOT=${CAPVCO_ROOT:-}
STATE=$ROOT/run/capvco
STATUS=$STATE/gpu.status
KEPT=$ROOT/var/lib/capvco/gpu.status
FAILURE=$STATE/gpu.failure
SUSPECT=$STATE/gpu.suspect
LOG=$ROOT/var/log/capvco-gpu.log
DROPIN_DIR=$ROOT/etc/containerd/conf.d
STEP=${STEP:-gpu}

load_settings() {
  local file
  for file in "$ROOT/etc/capvco/gpu.env" "$ROOT"/etc/capvco/gpu.d/*.env; do
    # shellcheck disable=SC1090 # found at run time
    [[ ! -r $file ]] || . "$file"
  done
  DRIVER=${CAPVCO_GPU_DRIVER:-}
  COUNT=${CAPVCO_GPU_COUNT:-1}
  BRANCH=${DRIVER%-open}
  OPEN=${DRIVER#"$BRANCH"}
  TRIES=${CAPVCO_GPU_TRIES:-5}
  PAUSE=${CAPVCO_GPU_RETRY_PAUSE:-10}
}

console() {
  local device
  for device in "$ROOT/dev/console" "$ROOT/dev/ttyS0"; do
    # Root may write to any file, yet a console without hardware refuses: so it is tried.
    if [[ -e $device ]] && printf '' 2>/dev/null >>"$device"; then
      printf '%s' "$device"
      return
    fi
  done
  printf '/dev/null'
}

# A line for a person: to the output of cloud-init, the log and the console.
say() {
  local line="capvco: $*"
  printf '%s\n' "$line"
  printf '%s %s\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$line" 2>/dev/null >>"$LOG" || true
  printf '%s\r\n' "$line" 2>/dev/null >>"$(console)" || true
}

# fail CAUSE WORDS...: end the step with a cause, a word for programs, and words for people.
fail() {
  local cause=$1
  shift
  say "ERROR: $STEP: $cause: $*"
  printf '%s %s %s\n' "$STEP" "$cause" "$*" >"$FAILURE"
  exit 1
}

# A command whose output belongs into the log only.
quietly() {
  printf '+ %s\n' "$*" >>"$LOG"
  "$@" >>"$LOG" 2>&1 </dev/null
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# Write standard input to a file, if that changes it; true if it did.
install_file() {
  local target=$1 wanted
  wanted=$(mktemp "$STATE/file.XXXXXX")
  cat >"$wanted"
  if cmp -s "$wanted" "$target"; then
    rm -f "$wanted"
    return 1
  fi
  mkdir -p "$(dirname "$target")"
  # Written into, not replaced: a link, an owner and permissions stay what they are.
  cat "$wanted" >"$target"
  rm -f "$wanted"
}

# The NVIDIA cards on the PCI bus, as folders of sysfs (what lspci -d 10de: shows of class 03xx).
cards_on_bus() {
  local device vendor class
  for device in "$ROOT"/sys/bus/pci/devices/*; do
    read -r vendor 2>/dev/null <"$device/vendor" || continue
    read -r class 2>/dev/null <"$device/class" || continue
    if [[ $vendor == 0x10de && $class == 0x03* ]]; then
      printf '%s\n' "$device"
    fi
  done
}

count_cards() {
  cards_on_bus | grep -c . || true
}

bound_driver() {
  local link=$1/driver
  if [[ -e $link ]]; then
    basename "$(readlink -f "$link")"
  fi
}

loaded_version() {
  local version=
  read -r version 2>/dev/null <"$ROOT/sys/module/nvidia/version" || true
  printf '%s' "$version"
}

loaded_branch() {
  local version
  version=$(loaded_version)
  printf '%s' "${version%%.*}"
}

count_visible() {
  { nvidia-smi -L 2>/dev/null </dev/null || true; } | grep -c '^GPU [0-9]' || true
}

kernel_log() {
  dmesg 2>/dev/null || journalctl -k --no-pager 2>/dev/null || true
}

secure_boot() {
  local file value
  for file in "$ROOT"/sys/firmware/efi/efivars/SecureBoot-*; do
    [[ -r $file ]] || continue
    # Four bytes of attributes, then the value.
    value=$(od -An -tu1 -j4 -N1 "$file" | tr -d ' ')
    [[ $value != 1 ]] || return 0
  done
  return 1
}

apt() {
  DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -y \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 \
    -o Dpkg::Options::=--force-confdef -o Dpkg::Options::=--force-confold "$@"
}

# retry WHAT COMMAND...: a bounded number of attempts, with longer and longer pauses.
retry() {
  local what=$1 try
  shift
  for ((try = 1; try <= TRIES; try++)); do
    if "$@"; then
      return 0
    fi
    if ((try < TRIES)); then
      say "$what failed (attempt $try of $TRIES), again in $((PAUSE * try)) s"
      sleep "$((PAUSE * try))"
    fi
  done
  return 1
}

refresh_and_install() {
  # A source that has nothing to do with us may be broken: whether ours works, install will tell.
  quietly apt update || true
  apt install --no-install-recommends "$@" >"$STATE/apt.out" 2>&1 </dev/null
  local status=$?
  cat "$STATE/apt.out" >>"$LOG"
  return "$status"
}

# install_packages REPOSITORY PACKAGE...: install, or fail with a cause that names the repository.
install_packages() {
  local repository=$1 said
  shift
  if retry "installing $* from $repository" refresh_and_install "$@"; then
    return 0
  fi
  said=$(grep -E '^(E|Err):' "$STATE/apt.out" | tail -n 1 | cut -c 1-300)
  case $(cat "$STATE/apt.out") in
    *'Could not get lock'* | *'Unable to acquire the dpkg'*)
      fail PackageManagerLocked "another process holds the package manager's lock: $said" ;;
    *'No space left'*)
      fail DiskFull "no space for the packages: use a larger diskGiB ($said)" ;;
    *'Failed to fetch'* | *'Could not resolve'* | *'Could not connect'* | *'Hash Sum mismatch'* | \
      *'Release file'* | *'Unable to connect'*)
      fail RepositoryUnreachable "$repository did not deliver $*: see that the node reaches it, or" \
        "set a mirror ($said)" ;;
    *'Unable to locate package'* | *'has no installation candidate'* | *'was not found'*)
      fail PackageMissing "$repository has no $*: $said" ;;
    *) fail InstallFailed "apt-get install $* failed: $said" ;;
  esac
}

# Keep upgrades from replacing user space below a loaded module: all of it is held, or none.
hold_packages() {
  local names
  mapfile -t names < <(
    # shellcheck disable=SC2016 # a format of dpkg's
    dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' '*nvidia*' 2>/dev/null |
      awk '$1 ~ /^.i/ { print $2 }' | sort -u
  )
  if ((${#names[@]})); then
    quietly apt-mark hold "${names[@]}" || say "NOTE: apt-mark hold failed for ${names[*]}"
  fi
  install_file "$ROOT/etc/apt/apt.conf.d/52capvco-gpu" <<'EOF' || true
// A driver replaced below a loaded module fails until the next boot.
Unattended-Upgrade::Package-Blacklist { "nvidia"; };
EOF
}
