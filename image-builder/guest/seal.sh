#!/bin/bash
# What a build leaves behind is removed: an image is a machine that has never run.
# shellcheck source=image-builder/guest/common.sh
. "$(dirname "$(readlink -f "$0")")/common.sh"

if [[ -e $PAYLOAD/baked ]]; then
  apt-get clean
  find /var/lib/apt/lists -type f -delete
  rm -f /var/log/apt/* /var/log/dpkg.log /var/log/alternatives.log /var/cache/debconf/*-old \
    /var/lib/dpkg/*-old
fi
rm -rf /run/capvco /var/log/capvco-*.log /var/lib/systemd/random-seed
# A machine gets an identity of its own at its first boot.
if [[ -s /etc/machine-id ]]; then : >/etc/machine-id; fi
