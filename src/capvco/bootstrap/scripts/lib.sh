# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the scripts that source it
# Common ground of the scripts that prepare a node: settings, lines for a person, how a step fails,
# apt.
#
# Who sources it has set NAME, such as gpu. CAPVCO_ROOT puts every file below another root. Settings
# are read from /etc/capvco/NAME.env, which the provider writes, and then from
# /etc/capvco/NAME.d/*.env, which are yours.

NAME=${NAME:?}
ROOT=${CAPVCO_ROOT:-}
STATE=$ROOT/run/capvco
STATUS=$STATE/$NAME.status
KEPT=$ROOT/var/lib/capvco/$NAME.status
FAILURE=$STATE/$NAME.failure
AT=$STATE/$NAME.step
LOG=$ROOT/var/log/capvco-$NAME.log
STEP=${STEP:-$NAME}
ARCHIVE="the distribution's archive"

# Read one file of settings after the other. Sets TRIES and PAUSE as well.
read_settings() {
  local file tries=CAPVCO_${NAME^^}_TRIES pause=CAPVCO_${NAME^^}_RETRY_PAUSE
  for file in "$@"; do
    # shellcheck disable=SC1090 # found at run time
    [[ ! -r $file ]] || . "$file"
  done
  TRIES=${!tries:-5}
  PAUSE=${!pause:-10}
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

# retire_lists LIST PATTERN: two lists that name one repository with different keys stop apt
# altogether.
retire_lists() {
  local list=$1 pattern=$2 file
  for file in "$ROOT"/etc/apt/sources.list.d/*.list "$ROOT"/etc/apt/sources.list.d/*.sources; do
    if [[ -f $file && $file != "$list" ]] && grep -qE "$pattern" "$file"; then
      say "NOTE: $file names the same repository: renamed to $file.disabled"
      mv "$file" "$file.disabled"
    fi
  done
}

fetch_key() {
  local key=$1 target=$2
  if [[ $key == /* ]]; then
    cp "$ROOT$key" "$target" 2>>"$LOG"
  else
    quietly curl -fsSL --connect-timeout 20 --max-time 120 -o "$target" "$key"
  fi
}

# install_key KEY KEYRING: print the file of the key; apt tells the two kinds of keys apart by their
# ending.
install_key() {
  local key=$1 keyring=$2 fetched=$STATE/$NAME.key
  retry "fetching the key $key" fetch_key "$key" "$fetched" >&2 || return 1
  if grep -q -- '-----BEGIN PGP PUBLIC KEY BLOCK-----' "$fetched"; then
    printf '%s' "$keyring.asc"
    install_file "$keyring.asc" <"$fetched" || true
  elif [[ $(od -An -tu1 -N1 "$fetched") -ge 128 ]]; then
    printf '%s' "$keyring.gpg"
    install_file "$keyring.gpg" <"$fetched" || true
  else
    return 2
  fi
}

# add_repository NAME KEY SETTING WHERE LINE: write its list and its key. WHERE is the rest of the
# list's line after the key; LINE, if there is one, is the whole of it instead.
add_repository() {
  local name=$1 key=$2 setting=$3 where=$4 line=$5 keyring status
  keyring=$(install_key "$key" "$ROOT/usr/share/keyrings/$name-keyring")
  status=$?
  case $status in
    0) ;;
    2) fail KeyInvalid "what $key delivers is no key: a proxy may have answered with a page" ;;
    *) fail RepositoryUnreachable "the key $key cannot be fetched: see that the node reaches it, or" \
      "set $setting to a mirror or a file" ;;
  esac
  printf '%s\n' "${line:-deb [signed-by=${keyring#"$ROOT"}] $where}" |
    install_file "$ROOT/etc/apt/sources.list.d/$name.list" || true
}

# judge CODE LIMIT: how work that was run within a time limit ended, as RESULT and WORDS.
judge() {
  local code=$1 limit=$2 step cause last
  WORDS=
  last=$(cat "$AT" 2>/dev/null || printf 'start')
  if ((code == 0)); then
    RESULT="ok $last -"
  elif [[ -s $FAILURE ]]; then
    read -r step cause WORDS <"$FAILURE"
    RESULT="failed $step $cause"
  else
    case $code in
      124 | 137)
        RESULT="failed $last TimedOut"
        WORDS="not done after $limit s; the log says how far it came" ;;
      *)
        RESULT="failed $last Crashed"
        WORDS="ended with status $code and no word; the log may say more" ;;
    esac
  fi
}

# The result, in the marker of this boot and in the one that stays.
keep_result() {
  printf '%s\n' "$1" >"$STATUS"
  printf '%s\n' "$1" >"$KEPT"
}
