#!/bin/sh
# Plays nvidia-smi: shows the cards that the stub of the driver has bound, as the kernel has them.
if [ ! -e /sys/module/nvidia ]; then
  echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
  exit 9
fi
[ "$1" = -L ] || exit 0
number=0
for card in /sys/bus/pci/drivers/nvidia/*:*; do
  [ -e "$card" ] || continue
  echo "GPU $number: NVIDIA A100-PCIE-40GB (UUID: GPU-00000000-0000-0000-0000-00000000000$number)"
  number=$((number + 1))
done
