#!/bin/bash
# NVIDIA's container toolkit, from NVIDIA's repository or a mirror of it.
#
# CAPVCO_TOOLKIT_KEY      URL or file of the repository's key
# CAPVCO_TOOLKIT_PACKAGES URL of the packages, as in the sources list
# CAPVCO_TOOLKIT_LIST     the whole line of the sources list, where the layout is another one
# CAPVCO_TOOLKIT_VERSION  one version for all packages; the newest if empty
set -u
STEP=toolkit
# shellcheck source=src/capvco/bootstrap/scripts/lib.sh
. "$(dirname "$(readlink -f "$0")")/lib.sh"
load_settings
KEY=${CAPVCO_TOOLKIT_KEY:-https://nvidia.github.io/libnvidia-container/gpgkey}
PACKAGES=${CAPVCO_TOOLKIT_PACKAGES:-https://nvidia.github.io/libnvidia-container/stable/deb}
VERSION=${CAPVCO_TOOLKIT_VERSION:-}
LIST=$ROOT/etc/apt/sources.list.d/nvidia-container-toolkit.list
KEYRING=$ROOT/usr/share/keyrings/nvidia-container-toolkit-keyring

# Two lists that name one repository with different keys stop apt altogether.
retire_other_lists() {
  local file
  for file in "$ROOT"/etc/apt/sources.list.d/*.list "$ROOT"/etc/apt/sources.list.d/*.sources; do
    if [[ -f $file && $file != "$LIST" ]] &&
      grep -qE 'nvidia\.github\.io/(libnvidia-container|nvidia-docker|nvidia-container-runtime)' \
        "$file"; then
      say "NOTE: $file names NVIDIA's repository too: renamed to $file.disabled"
      mv "$file" "$file.disabled"
    fi
  done
}

fetch_key() {
  local target=$1
  if [[ $KEY == /* ]]; then
    cp "$ROOT$KEY" "$target" 2>>"$LOG"
  else
    quietly curl -fsSL --connect-timeout 20 --max-time 120 -o "$target" "$KEY"
  fi
}

# Print the file of the key: apt tells the two kinds of keys apart by their ending.
install_key() {
  local fetched=$STATE/toolkit.key
  retry "fetching the key $KEY" fetch_key "$fetched" >&2 || return 1
  if grep -q -- '-----BEGIN PGP PUBLIC KEY BLOCK-----' "$fetched"; then
    printf '%s' "$KEYRING.asc"
    install_file "$KEYRING.asc" <"$fetched" || true
  elif [[ $(od -An -tu1 -N1 "$fetched") -ge 128 ]]; then
    printf '%s' "$KEYRING.gpg"
    install_file "$KEYRING.gpg" <"$fetched" || true
  else
    return 2
  fi
}

write_list() {
  local keyring status line
  keyring=$(install_key)
  status=$?
  case $status in
    0) ;;
    2) fail KeyInvalid "what $KEY delivers is no key: a proxy may have answered with a page" ;;
    *) fail RepositoryUnreachable "the key $KEY cannot be fetched: see that the node reaches it, or" \
      "set CAPVCO_TOOLKIT_KEY to a mirror or a file" ;;
  esac
  # shellcheck disable=SC2016 # apt itself replaces $(ARCH)
  line="deb [signed-by=${keyring#"$ROOT"}] $PACKAGES/"'$(ARCH) /'
  printf '%s\n' "${CAPVCO_TOOLKIT_LIST:-$line}" | install_file "$LIST" || true
}

names() {
  local name
  for name in nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools \
    libnvidia-container1; do
    printf '%s\n' "$name${VERSION:+=$VERSION}"
  done
}

if has nvidia-ctk && has nvidia-container-runtime; then
  say "the container toolkit is there: nothing is installed"
  exit 0
fi
retire_other_lists
write_list
mapfile -t wanted < <(names)
install_packages "$PACKAGES" "${wanted[@]}"
hold_packages
has nvidia-ctk || fail InstallFailed "the container toolkit is installed and brought no nvidia-ctk"
