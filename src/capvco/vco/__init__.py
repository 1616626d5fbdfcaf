"""The client of a VCO cloud: how the cloud is spoken to.

`cloud.VCO` is the way in: one object per credential, with one resource group per attribute. Every
method is one endpoint, returns the frozen structs of `models`, and raises only the errors drawn in
`errors`. Reads are repeated briefly; a mutation is sent once, ever: whoever calls looks before it
repeats.
"""
