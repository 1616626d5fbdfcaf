#!/bin/bash
# Everything baked in, by the scripts that a node runs at its first boot.
# shellcheck source=image-builder/guest/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"
NODE=$PAYLOAD/node
KERNEL=$(newest_kernel)
OWN=/etc/capvco/gpu.d/zz-image-build.env
OWN_KUBERNETES=/etc/capvco/kubernetes.d/zz-image-build.env

# Nothing of the image runs here: no service starts, no module is loaded, and the kernel that the
# node's scripts hear of is the image's. What they say to systemd beyond files is heard at boot.
stand_ins() {
  mkdir -p "$PAYLOAD/bin"
  cat >"$PAYLOAD/bin/uname" <<END
#!/bin/sh
if [ "\$*" = -r ]; then echo '$KERNEL'; else exec /usr/bin/env PATH=/usr/bin:/bin uname "\$@"; fi
END
  printf '#!/bin/sh\nexit 0\n' >"$PAYLOAD/bin/modprobe"
  cat >"$PAYLOAD/bin/systemctl" <<'END'
#!/bin/sh
case $1 in
  enable | disable | mask | unmask) exec /usr/bin/systemctl "$@" ;;
esac
exit 0
END
  printf '#!/bin/sh\nexit 101\n' >"$PAYLOAD/policy-rc.d"
  chmod +x "$PAYLOAD"/bin/* "$PAYLOAD/policy-rc.d"
  if [[ ! -e /usr/sbin/policy-rc.d ]]; then
    cp -p "$PAYLOAD/policy-rc.d" /usr/sbin/policy-rc.d
    UNDO+=(/usr/sbin/policy-rc.d)
  fi
  PATH=$PAYLOAD/bin:$PATH
}

settings() {
  local file
  [[ -r $PAYLOAD/settings.env ]] || return 0
  for file in "$OWN" "$OWN_KUBERNETES"; do
    mkdir -p "$(dirname "$file")"
    cp "$PAYLOAD/settings.env" "$file"
    UNDO+=("$file")
  done
}

# The sources of the build instead of the image's own, which come back.
sources() {
  [[ -r $PAYLOAD/apt.sources ]] || return 0
  mkdir "$PAYLOAD/sources"
  mv /etc/apt/sources.list /etc/apt/sources.list.d "$PAYLOAD/sources/" 2>/dev/null || true
  mkdir -p /etc/apt/sources.list.d
  if grep -q '^Types:' "$PAYLOAD/apt.sources"; then
    cp "$PAYLOAD/apt.sources" /etc/apt/sources.list.d/zz-image-build.sources
    UNDO+=(/etc/apt/sources.list.d/zz-image-build.sources)
  else
    cp "$PAYLOAD/apt.sources" /etc/apt/sources.list.d/zz-image-build.list
    UNDO+=(/etc/apt/sources.list.d/zz-image-build.list)
  fi
}

UNDO=()
undo() {
  rm -f "${UNDO[@]}"
  rmdir --ignore-fail-on-non-empty /etc/capvco/gpu.d /etc/capvco/kubernetes.d /etc/capvco \
    2>/dev/null || true
  if [[ -d $PAYLOAD/sources ]]; then
    cp -a "$PAYLOAD/sources/." /etc/apt/
    rm -rf "$PAYLOAD/sources"
  fi
}

node_step() {
  local step=$1
  shift
  printf 'capvco-image: node script %s\n' "$step"
  if ! env "$@" bash "$NODE/$step.sh"; then
    tail -n 60 /var/log/capvco-gpu.log /var/log/capvco-kubernetes.log 2>/dev/null || true
    die "the node's script $step failed in the image"
  fi
}

install() {
  DEBIAN_FRONTEND=noninteractive apt-get -y -o Dpkg::Options::=--force-confold \
    --no-install-recommends install "$@"
}

# A licensed driver is the user's file. What it needs to build its module comes from the archive.
driver_file() {
  local needs=()
  if [[ -r $PAYLOAD/driver.run ]] ||
    dpkg-deb -f "$PAYLOAD/driver.deb" Pre-Depends Depends | grep -q dkms; then
    needs=("linux-headers-$KERNEL" gcc make)
    apt-get update
    install "${needs[@]}" || die "the image's sources have no ${needs[*]}, to build the driver's module"
  fi
  if [[ -r $PAYLOAD/driver.run ]]; then
    sh "$PAYLOAD/driver.run" --silent --kernel-name="$KERNEL" || {
      tail -n 30 /var/log/nvidia-installer.log 2>/dev/null || true
      die "the driver's installer failed"
    }
  else
    install "$PAYLOAD/driver.deb" || die "the driver's package cannot be installed"
    apt-mark hold "$(dpkg-deb -f "$PAYLOAD/driver.deb" Package)"
  fi
  depmod "$KERNEL"
  modinfo -k "$KERNEL" -F version nvidia >/dev/null 2>&1 ||
    die "the driver was installed and brought no module nvidia for the image's kernel $KERNEL"
}

extra_packages() {
  local names
  read -ra names <<<"$PACKAGES"
  apt-get update
  install "${names[@]}" || die "the image's sources do not have all of $PACKAGES"
}

bring_containerd() {
  has containerd && return
  apt-get update
  install containerd || die "the image's sources have no containerd"
}

trap undo EXIT
: >"$PAYLOAD/baked"
stand_ins
settings
sources
mkdir -p /run/capvco /var/log
if [[ -n $PACKAGES ]]; then extra_packages; fi
if [[ -n $KUBERNETES_VERSION ]]; then
  node_step kubernetes CAPVCO_KUBERNETES_VERSION="$KUBERNETES_VERSION"
fi
if [[ -r $PAYLOAD/driver.deb || -r $PAYLOAD/driver.run ]]; then
  driver_file
elif [[ -n $DRIVER ]]; then
  node_step driver CAPVCO_GPU_DRIVER="$DRIVER"
fi
if [[ -n $DRIVER || -r $PAYLOAD/driver.deb || -r $PAYLOAD/driver.run ]]; then
  bring_containerd
  node_step toolkit
  node_step containerd
fi
