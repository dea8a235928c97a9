"""Plans run on torch's tensors: operators that work under torch.compile and in CUDA graphs.

    y = fuseplan.torch.gated_ffn(x, w_gate, w_up, w_down)   # x [..., k] -> [..., l]
    y = fuseplan.torch.ffn(x, w1, w2, act="gelu")
    print(fuseplan.torch.patch(model))                      # a model's feed-forward modules

Where no plan can run, torch's own operators compute the same, with one FallbackWarning a problem; so
they do for tensors on the CPU."""
from .checks import NotPrepared, Refused
from .modules import Finding, Report, patch, unpatch
from .operators import ffn, gated_ffn, prepare
from .packing import pack_gate_up
from .runtime import FallbackWarning, use_store

__all__ = ["FallbackWarning", "Finding", "NotPrepared", "Refused", "Report", "ffn", "gated_ffn",
           "pack_gate_up", "patch", "prepare", "unpatch", "use_store"]
