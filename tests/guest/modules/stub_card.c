// SPDX-License-Identifier: MIT OR GPL-2.0-only
// A PCI bus with one card that is none: what the kernel asks of it is answered from here.
//
// The kernel finds it as it finds any card, gives addresses to its windows, and lets drivers bind.
#include <linux/module.h>
#include <linux/pci.h>
#include <asm/pci.h>

#define BUS 0x80
#define BAR0_SIZE (16u << 20)
#define BAR1_SIZE (256u << 20)

static u8 space[PCI_CFG_SPACE_SIZE];
static struct pci_bus *bus;
static struct pci_sysdata sysdata = { .domain = 0, .node = NUMA_NO_NODE };

static u32 writable(int where)
{
	switch (where) {
	case PCI_COMMAND:
		return PCI_COMMAND_IO | PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER;
	case PCI_BASE_ADDRESS_0:
		return ~(BAR0_SIZE - 1);
	case PCI_BASE_ADDRESS_1:
		return ~(BAR1_SIZE - 1);
	case PCI_BASE_ADDRESS_2: /* the upper half of BAR1 */
		return ~0u;
	default:
		return 0;
	}
}

static int answer(struct pci_bus *on, unsigned int devfn, int where, int size, u32 *value)
{
	*value = ~0u;
	if (on->number != BUS || devfn || where + size > sizeof(space))
		return PCIBIOS_DEVICE_NOT_FOUND;
	*value = 0;
	memcpy(value, space + where, size);
	return PCIBIOS_SUCCESSFUL;
}

static int take(struct pci_bus *on, unsigned int devfn, int where, int size, u32 value)
{
	int at = where & ~3, shift = 8 * (where & 3);
	u32 mask, old;

	if (on->number != BUS || devfn || where + size > sizeof(space))
		return PCIBIOS_DEVICE_NOT_FOUND;
	mask = writable(at) & ((size == 4 ? ~0u : (1u << (8 * size)) - 1) << shift);
	memcpy(&old, space + at, 4);
	old = (old & ~mask) | ((value << shift) & mask);
	memcpy(space + at, &old, 4);
	return PCIBIOS_SUCCESSFUL;
}

static struct pci_ops ops = { .read = answer, .write = take };

static void put(int where, u32 value)
{
	memcpy(space + where, &value, 4);
}

static int __init begin(void)
{
	static struct resource busn = { .start = BUS, .end = BUS, .flags = IORESOURCE_BUS };
	LIST_HEAD(resources);

	put(PCI_VENDOR_ID, 0x20b010de); /* A100 */
	put(PCI_CLASS_REVISION, 0x030200a1);
	put(PCI_BASE_ADDRESS_0, PCI_BASE_ADDRESS_SPACE_MEMORY);
	put(PCI_BASE_ADDRESS_1, PCI_BASE_ADDRESS_MEM_TYPE_64 | PCI_BASE_ADDRESS_MEM_PREFETCH);
	pci_add_resource(&resources, &iomem_resource);
	pci_add_resource(&resources, &busn);
	bus = pci_create_root_bus(NULL, BUS, &ops, &sysdata, &resources);
	if (!bus)
		return -ENODEV;
	pci_scan_child_bus(bus);
	pci_bus_assign_resources(bus);
	pci_bus_add_devices(bus);
	return 0;
}

module_init(begin);
MODULE_DESCRIPTION("A PCI card for tests");
MODULE_LICENSE("Dual MIT/GPL");
