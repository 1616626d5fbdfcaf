#!/bin/sh
# Tells the host what became of this boot: a few lines on the console, files on a disk.
say() {
  # In one write, and after an end of line: others write to the console as well.
  printf '\r\nguest: %s\r\n' "$*" >/dev/ttyS0
}
# What a second run must leave alone.
state() {
  find etc -type f -exec sha256sum {} +
  dpkg-query -W
  apt-mark showhold
  systemctl show -p MainPID containerd
}
cd /
mkdir -p run/guest
if grep -qs '^ok ' run/capvco/gpu.status; then
  state >run/guest/before
  /opt/capvco/gpu/install.sh >run/guest/again 2>&1
  echo "status $?" >>run/guest/again
  state >run/guest/after
fi
containerd config dump >run/guest/containerd.toml 2>&1
journalctl -u kubelet -u containerd --no-pager >run/guest/services.log 2>&1
cloud-init status --long >run/guest/cloud-init 2>&1
cloud-init schema --system >run/guest/schema 2>&1
cat /sys/devices/system/clocksource/clocksource0/current_clocksource >run/guest/clocksource
uname -r >run/guest/kernel
apt-mark showhold >run/guest/held
kubeadm config images list --kubernetes-version "$(kubeadm version -o short)" >run/guest/images 2>&1
cat proc/cmdline >run/guest/cmdline
{
  containerd --version
  kubelet --version
  echo "kubeadm $(kubeadm version -o short)"
  cloud-init --version
  runc --version | head -n 1
  # shellcheck disable=SC2016 # a format of dpkg's
  dpkg-query -W -f '${Package} ${Version}\n' nvidia-container-toolkit
} >run/guest/versions 2>&1
ls -d sys/bus/pci/drivers/nvidia/*:* >run/guest/bound 2>&1
for path in var/lib/capvco/kubernetes.status var/lib/capvco/gpu.status \
  run/cluster-api/bootstrap-success.complete; do
  [ ! -e "$path" ] || stat -c '%n %.9Y' "$path"
done >run/guest/times
tar -cz run/guest run/capvco var/lib/capvco var/lib/kubelet/kubeadm-flags.env run/kubeadm \
  etc/containerd var/log/capvco-*.log var/log/cloud-init-output.log var/log/cloud-init.log \
  var/lib/cloud/data/status.json 2>/dev/null |
  dd of=/dev/disk/by-id/virtio-report iflag=fullblock bs=64K conv=fsync status=none
say "cloud-init $(grep -o 'status: .*' run/guest/cloud-init)"
[ ! -e run/capvco/gpu.status ] || say "gpu $(cat run/capvco/gpu.status)"
if [ -e run/cluster-api/bootstrap-success.complete ]; then
  say kubeadm success
else
  say kubeadm failed
fi
say end
