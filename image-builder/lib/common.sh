# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the other files
# Common ground: lines for a person, how it fails, what is cleaned up.
#
# Exit status: 0 done, 1 failed, 2 wrong options, 3 a tool is not installed, 4 the image lacks
# something that a GPU node requires (--check, --boot-test).

FAILED=1 USAGE=2 NO_TOOL=3 LACKING=4
SCRATCH=
CHILD=

say() {
  printf 'capvco-image: %s\n' "$*" >&2
}

# die STATUS WORDS...
die() {
  local status=$1
  shift
  say "ERROR: $*"
  exit "$status"
}

has() {
  command -v "$1" >/dev/null 2>&1
}

# need PROGRAM PACKAGE WHY
need() {
  has "$1" || die "$NO_TOOL" "$1 is not installed, and is needed to $3: install the package $2" \
    "(apt-get install $2)"
}

need_tools() {
  need qemu-img qemu-utils 'read and write disk images'
  need guestfish libguestfs-tools 'change a disk image without root'
  if [[ -z $CHECK ]]; then
    need sha256sum coreutils 'tell whether anything has changed'
    [[ -n $BASE_IMAGE ]] || need curl curl 'download the Ubuntu cloud image'
  fi
  if ((BOOT_TEST)); then
    need qemu-system-x86_64 qemu-system-x86 'boot the image'
    seed_tool >/dev/null || need genisoimage genisoimage 'make the seed of the boot test'
  fi
}

# A signal ends a shell's wait, but not a command in its foreground.
interruptible() {
  local status=0
  "$@" &
  CHILD=$!
  wait "$CHILD" || status=$?
  CHILD=
  return "$status"
}

# A folder of our own, beside a file if one is named, so that a rename into place is atomic.
make_scratch() {
  SCRATCH=$(mktemp -d "${1:-${TMPDIR:-/var/tmp}}/.capvco-image.XXXXXX")
}

cleanup() {
  local status=$?
  trap - EXIT HUP INT TERM
  [[ -z $CHILD ]] || kill -TERM "$CHILD" 2>/dev/null || true
  appliance_kill
  [[ -z $SCRATCH ]] || rm -rf "$SCRATCH"
  exit "$status"
}

# timed WORDS COMMAND...: run a step, and say how long it took.
timed() {
  local what=$1 before=$SECONDS
  shift
  say "$what ..."
  "$@"
  say "$what: $((SECONDS - before)) s"
}

sha_of() {
  sha256sum "$1" | cut -d ' ' -f 1
}

kvm_usable() {
  # A paravirtual nested KVM has the device but not the flags, and starts no stock kernel.
  [[ -r /dev/kvm && -w /dev/kvm ]] && grep -qwE 'svm|vmx' /proc/cpuinfo
}

SPEED_NOTED=0

note_speed() {
  if kvm_usable || ((SPEED_NOTED)); then return; fi
  SPEED_NOTED=1
  say "NOTE: no usable KVM (/dev/kvm, and svm or vmx in /proc/cpuinfo): QEMU emulates" \
    "the CPU, which takes some ten times as long"
}
