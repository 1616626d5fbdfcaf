#!/bin/bash
# kubeadm, kubelet and containerd, where the image has not all of them. What is there is kept.
#
# kubernetes.sh       installs what is missing; exits 0 only if kubeadm could run then. Works in an
#                     image as well, where no systemd runs: what needs a kernel waits for the boot.
# kubernetes.sh boot  is the entry of runcmd: the same within a time limit. Its result is one line,
#                     in the marker /run/capvco/kubernetes.status, at the end of
#                     /var/log/capvco-kubernetes.log, and on the console. Always exits 0: the commands
#                     of runcmd are one script, and kubeadm's line is one of them.
#
# CAPVCO_KUBERNETES_VERSION    such as v1.35.8; CAPVCO_KUBERNETES_MINOR is made of it, v1.35, for use
#                              in the settings below
# CAPVCO_KUBERNETES_PACKAGES   URL of the packages, as in the sources list
# CAPVCO_KUBERNETES_KEY        URL or file of their key
# CAPVCO_KUBERNETES_LIST       the whole line of the sources list, where the layout is another one
# CAPVCO_KUBERNETES_REVISION   version of the packages, such as 1.35.8-1.1; the newest of VERSION
# CAPVCO_KUBERNETES_CONTAINERD package of containerd, or several
# CAPVCO_KUBERNETES_PAUSE      image of the pause container; the one that kubeadm names
set -u
NAME=kubernetes
SELF=$(readlink -f "$0")
# shellcheck source=src/capvco/bootstrap/scripts/lib.sh
. "$(dirname "$SELF")/lib.sh"
MAIN=$ROOT/etc/containerd/config.toml
OURS="# Written by CAPVCO at first boot, since there was none."

load_settings() {
  read_settings "$ROOT/etc/capvco/kubernetes.env"
  CAPVCO_KUBERNETES_MINOR=v$(cut -d . -f 1,2 <<<"${CAPVCO_KUBERNETES_VERSION#v}")
  read_settings "$ROOT"/etc/capvco/kubernetes.d/*.env
  VERSION=${CAPVCO_KUBERNETES_VERSION:-}
  MINOR=$CAPVCO_KUBERNETES_MINOR
  PACKAGES=${CAPVCO_KUBERNETES_PACKAGES:-https://pkgs.k8s.io/core:/stable:/$MINOR/deb}
  KEY=${CAPVCO_KUBERNETES_KEY:-$PACKAGES/Release.key}
  PLAIN=${VERSION#v}
  REVISION=${CAPVCO_KUBERNETES_REVISION:-${PLAIN%%+*}-*}
  LIMIT=${CAPVCO_KUBERNETES_TIMEOUT:-900}
}

begin() {
  STEP=$1
  printf '%s' "$STEP" >"$AT"
}

# Whether this is a booted machine, rather than an image in the making.
booted() {
  [[ -d $ROOT/run/systemd/system ]]
}

has_runtime() {
  has containerd || has crio || has cri-dockerd
}

complete() {
  has kubeadm && has kubelet && has_runtime
}

check_settings() {
  begin settings
  if ! [[ $VERSION =~ ^v?[0-9]+\.[0-9]+\.[0-9]+([-+].*)?$ ]]; then
    fail SettingsInvalid "CAPVCO_KUBERNETES_VERSION is \"$VERSION\" in" \
      "$ROOT/etc/capvco/kubernetes.env: a version is like v1.35.8"
  fi
  if ! has apt-get; then
    fail NoPackageManager "this image has no apt-get, and not all of kubeadm, kubelet and containerd:" \
      "use an image that has them"
  fi
}

# What kubeadm asks of the kernel. Written, too: it must hold at the next boot.
prepare_kernel() {
  local module settings=$ROOT/etc/sysctl.d/90-capvco-kubernetes.conf
  begin kernel
  printf '%s\n' overlay br_netfilter |
    install_file "$ROOT/etc/modules-load.d/capvco-kubernetes.conf" || true
  install_file "$settings" <<'END' || true
net.bridge.bridge-nf-call-iptables = 1
net.bridge.bridge-nf-call-ip6tables = 1
net.ipv4.ip_forward = 1
END
  no_swap
  booted || return 0
  for module in overlay br_netfilter; do
    quietly modprobe "$module" ||
      fail NoKernelModule "the kernel has no module $module, which containers need"
  done
  quietly sysctl -p "$settings" ||
    fail KernelSettingRefused "the kernel refuses a setting of $settings; the log has its words"
}

no_swap() {
  local table=$ROOT/etc/fstab kept
  local swap='[^#[:space:]]+[[:space:]]+[^[:space:]]+[[:space:]]+swap[[:space:]]'
  if kept=$(grep -E "^$swap" "$table" 2>/dev/null); then
    sed -E "s/^($swap)/# capvco: \\1/" "$table" | install_file "$table" || true
    say "NOTE: the kubelet wants no swap: taken out of $table: ${kept//$'\n'/; }"
  fi
  ! booted || quietly swapoff -a || say "NOTE: swapoff -a failed; the kubelet may refuse to start"
}

# conntrack and the others are looked for by kubeadm, and are no dependencies of its package.
install_runtime() {
  local names=(ca-certificates conntrack curl ethtool iptables socat) more none=
  begin runtime
  # A file that the image or the user has brought is theirs; one that the package brings is not.
  [[ -e $MAIN ]] || none=1
  if ! has_runtime; then
    read -ra more <<<"${CAPVCO_KUBERNETES_CONTAINERD:-containerd}"
    names+=("${more[@]}")
  fi
  say "installing ${names[*]} from $ARCHIVE"
  install_packages "$ARCHIVE" "${names[@]}"
  if [[ -n $none ]] && has containerd; then
    write_main
  fi
}

install_kubernetes() {
  local name wanted=() list=$ROOT/etc/apt/sources.list.d/kubernetes.list
  begin packages
  if has kubeadm && has kubelet; then
    return
  fi
  for name in kubeadm kubelet kubectl; do
    has "$name" || wanted+=("$name=$REVISION")
  done
  has crictl || wanted+=(cri-tools)
  retire_lists "$list" 'pkgs\.k8s\.io'
  add_repository kubernetes "$KEY" CAPVCO_KUBERNETES_KEY "$PACKAGES/ /" \
    "${CAPVCO_KUBERNETES_LIST:-}"
  say "installing ${wanted[*]} from $PACKAGES"
  install_packages "$PACKAGES" "${wanted[@]}"
  quietly apt-mark hold kubeadm kubelet kubectl ||
    say "NOTE: apt-mark hold failed for kubeadm, kubelet and kubectl"
}

pause_image() {
  kubeadm config images list --kubernetes-version "v${PLAIN%%+*}" 2>/dev/null </dev/null |
    grep -m 1 '/pause:'
}

# The least that a node needs: cgroups by systemd, as the kubelet has them, kubeadm's pause image,
# and two folders for the user's own: drop-ins, and mirrors of registries.
write_main() {
  local version=2 cri='"io.containerd.grpc.v1.cri"' pause
  local images=$cri runtime=$cri
  pause=${CAPVCO_KUBERNETES_PAUSE:-$(pause_image)}
  pause=${pause:+sandbox_image = \"$pause\"}
  if [[ $(containerd --version) =~ \ v?([2-9]|[1-9][0-9]+)\.[0-9] ]]; then
    version=3 runtime='"io.containerd.cri.v1.runtime"' images='"io.containerd.cri.v1.images"'
    pause=${pause/sandbox_image/sandbox}
    pause=${pause:+$'\n'[plugins.$images.pinned_images]$'\n'$pause}
  else
    pause=${pause:+$'\n'[plugins.$cri]$'\n'$pause}
  fi
  install_file "$MAIN" <<END || true
$OURS
version = $version
imports = ["$ROOT/etc/containerd/conf.d/*.toml"]
$pause

[plugins.$images.registry]
config_path = "$ROOT/etc/containerd/certs.d"

[plugins.$runtime.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.$runtime.containerd.runtimes.runc.options]
SystemdCgroup = true
END
}

# What containerd makes of its configuration decides, not what was written.
check_containerd() {
  local now
  now=$(containerd --config "$MAIN" config dump 2>"$STATE/dump.err" </dev/null) ||
    fail ConfigUnreadable "containerd cannot read $MAIN:" \
      "$(grep -v 'level=warning' "$STATE/dump.err" | tail -n 1 | cut -c 1-300)"
  if grep -E '^ *disabled_plugins' <<<"$now" | grep -qE "[\"'.]cri[\"'.]"; then
    fail CRIDisabled "$MAIN disables containerd's CRI plugin, without which the kubelet has no runtime"
  fi
  if ! grep -qE '^ *SystemdCgroup *= *true' <<<"$now"; then
    say "NOTE: $MAIN has no SystemdCgroup = true: the kubelet uses cgroups by systemd unless told" \
      "otherwise, and pods may not start"
  fi
}

# Kubernetes 1.36 warns of containerd 1.x, and is the last to take it.
note_containerd() {
  if [[ $MINOR =~ ^v1\.([0-9]+)$ ]] && ((BASH_REMATCH[1] >= 36)) &&
    [[ $(containerd --version) =~ \ v?1\.[0-9] ]]; then
    say "NOTE: Kubernetes $VERSION wants containerd 2, and this is $(containerd_version): name another" \
      "package in CAPVCO_KUBERNETES_CONTAINERD, or bake containerd in"
  fi
}

containerd_version() {
  containerd --version 2>/dev/null </dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1
}

start_containerd() {
  local until=$((SECONDS + ${CAPVCO_CONTAINERD_WAIT:-60}))
  quietly systemctl enable containerd || true
  booted || return 0
  quietly systemctl restart containerd || true
  while ! systemctl is-active --quiet containerd; do
    if ((SECONDS >= until)); then
      journalctl -u containerd --no-pager -n 20 >>"$LOG" 2>&1
      fail ContainerdRefused "containerd does not start: the log has its last words"
    fi
    sleep 1
  done
}

verify() {
  begin verify
  complete || fail InstallFailed "all packages are installed, and kubeadm, kubelet or containerd is" \
    "not there"
  if has containerd; then
    # Once more: by now kubeadm can tell its pause image.
    ! grep -qxF "$OURS" "$MAIN" 2>/dev/null || write_main
    check_containerd
    note_containerd
    start_containerd
  fi
  quietly systemctl enable kubelet || true
}

version_of() {
  kubeadm version -o short 2>/dev/null </dev/null
}

note_version() {
  local found
  found=$(version_of)
  if [[ -n $found && -n $VERSION && ${found%%+*} != "v${PLAIN%%+*}" ]]; then
    say "NOTE: the Machine asks for Kubernetes $VERSION, and kubeadm is $found: what is there is kept"
  fi
}

install_all() {
  rm -f "$FAILURE"
  if complete && ! grep -qs '^failed' "$KEPT"; then
    begin present
    note_version
    say "kubeadm, kubelet and a container runtime are there: nothing is installed"
    return
  fi
  check_settings
  prepare_kernel
  install_runtime
  install_kubernetes
  verify
  note_version
}

# A shell of its own for what may hang: the time limit must reach it.
boot() {
  local code found runtime
  rm -f "$STATUS"
  timeout --kill-after=30 "$LIMIT" bash "$SELF"
  code=$?
  judge "$code" "$LIMIT"
  found=$(version_of)
  runtime=$(containerd_version)
  RESULT+=" kubeadm=${found:--} containerd=${runtime:--}${WORDS:+: $WORDS}"
  keep_result "$RESULT"
  say "Kubernetes step: $RESULT"
  say "Kubernetes step: took $SECONDS s; status $code; log: $LOG"
}

umask 022
mkdir -p "$STATE" "$(dirname "$KEPT")" "$(dirname "$LOG")"
load_settings
if [[ ${1:-} == boot ]]; then
  boot
  exit 0
fi
install_all
