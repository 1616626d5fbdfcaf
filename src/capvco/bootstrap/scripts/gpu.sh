# shellcheck shell=bash
# shellcheck disable=SC2034 # what is set here is used by the scripts that source it
# Common ground of the GPU scripts: their settings, the cards, the driver.

NAME=gpu
# shellcheck source=src/capvco/bootstrap/scripts/lib.sh
. "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/lib.sh"
SUSPECT=$STATE/gpu.suspect
DROPIN_DIR=$ROOT/etc/containerd/conf.d
ARCHIVE="Ubuntu's archive"

load_settings() {
  read_settings "$ROOT/etc/capvco/gpu.env" "$ROOT"/etc/capvco/gpu.d/*.env
  DRIVER=${CAPVCO_GPU_DRIVER:-}
  COUNT=${CAPVCO_GPU_COUNT:-1}
  BRANCH=${DRIVER%-open}
  OPEN=${DRIVER#"$BRANCH"}
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
