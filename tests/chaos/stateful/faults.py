"""Everything that may go wrong with a call to the cloud, and where."""

from vcosim.control import Action, Match

WHAT = {
    "lose_before": Action(kind="lose_before"),
    "lose_after": Action(kind="lose_after"),
    "429": Action(kind="status", status=429, retry_after=1, html=False),
    "500 JSON, done": Action(kind="status", status=500, html=False, committed=True),
    "500 HTML": Action(kind="status", status=500),
    "502 HTML, done": Action(kind="status", status=502, committed=True),
    "503 HTML": Action(kind="status", status=503),
    "504 HTML, done": Action(kind="status", status=504, committed=True),
    "504 HTML": Action(kind="status", status=504),
    "slow": Action(kind="slow", seconds=0.3),
    "done long after the client gave up": Action(kind="slow", seconds=0.9),
    "done at once, answered too late": Action(kind="slow", seconds=0.9, committed=True),
    "truncated": Action(kind="truncate", keep=0.5),
    "truncated, looking whole": Action(kind="truncate", keep=0.7, clean=True),
    "empty": Action(kind="truncate", keep=0.0, clean=True),
    "lists lag": Action(kind="lag", seconds=0.6),
    "partial lists": Action(kind="partial", location="be-mac-dc01-001"),
}
"""None delays anything for longer than the settle time: that much the provider may count on."""

WHERE = {
    "everywhere": Match(),
    "changes": Match(mutating=True),
    "reads": Match(method="GET"),
    "reserve": Match(method="POST", route=r"/gpus/[{]gpu_id[}]$"),
    "release": Match(method="DELETE", route=r"/vgpus/[{]vgpu_id[}]$"),
    "make the VM": Match(method="POST", route=r"/vms$"),
    "attach": Match(method="POST", route=r"/vgpus/[{]vgpu_id[}]$"),
    "power": Match(method="POST", route=r"/(start|stop)$"),
    "delete the VM": Match(method="DELETE", route=r"/vms/[{]vm_id[}]$"),
    "list the vGPUs": Match(method="GET", route=r"/vgpus$"),
    "list the VMs": Match(method="GET", route=r"/vms$"),
}
