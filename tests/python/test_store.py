"""Stores, lookups, the default layers, threads, processes; kernels on the fake libcuda."""
import dataclasses
import json
import os
import threading

from common import BUILD, G1, Case, fuseplan as run_fuseplan, predicted_database, python, scratch
from common import shipped_database

import fuseplan


class Lookups(Case):
    def setUp(self):
        self.store = fuseplan.Store(shipped_database())
        self.addCleanup(self.store.close)

    def test_an_answer_holds_what_the_command_line_prints(self):
        wanted = json.loads(run_fuseplan("lookup", "--kind", "gemm_chain", "--m", 128, "--n", 512, "--k", 32,
                                         "--l", 256, "--device", "h200", "--db", shipped_database(), "--json"))
        answer = self.store.lookup(**G1)
        for mine, theirs in {"tier": "tier", "provenance": "provenance", "match": "match",
                             "problem": "problem", "measured_us": "measured_us",
                             "measured_hot_us": "measured_hot_us", "estimated_us": "est_us",
                             "library_us": "library_us", "library_hot_us": "library_hot_us",
                             "m_low": "m_low", "m_high": "m_high", "has_kernel": "runnable",
                             "is_deterministic": "deterministic", "candidates": "n_candidates",
                             "verified": "n_ok", "created_unix": "created_unix"}.items():
            self.assertEqual(getattr(answer, mine), wanted[theirs], mine)
        self.assertEqual(answer.kernel, wanted["kernel"]["name"])
        self.assertIn(f"exchange={wanted['schedule']['exchange']} ", answer.schedule)
        self.assertTrue(answer.is_hit)
        self.assertIs(answer.is_library, False)
        self.assertEqual(answer.layer, 0)

    def test_the_library_may_be_the_plan(self):
        answer = self.store.lookup("gated_ffn", 128, 11008, 4096)
        self.assertTrue(answer.is_library)
        self.assertEqual((answer.schedule, answer.has_kernel), ("", False))
        self.assertIn("l=4096 dtype=f16 act=silu", answer.problem)

    def test_nothing_stored_is_none_or_an_exception_with_the_reason(self):
        far = {**G1, "n": 100000}
        self.assertIsNone(self.store.lookup(**far))
        self.assertIsNone(self.store.lookup(**G1, device="h300"))
        self.assertIsNone(self.store.lookup(**G1, runnable=True))
        with self.assertRaisesRegex(fuseplan.NoPlan, "no plan for gemm_chain m=128 n=100000") as raised:
            self.store.lookup(**far, require_hit=True)
        self.assertEqual(raised.exception.status, 1)
        with self.assertRaises(fuseplan.NoPlan):
            self.store.lookup(**G1, device="h300", require_hit=True)

    def test_the_last_tier_bounds_the_answer(self):
        near = {**G1, "n": 520}
        answer = self.store.lookup(**near)
        self.assertTrue(answer is None or answer.tier == "nearest")
        self.assertIsNone(self.store.lookup(**near, last_tier="envelope"))
        self.assertEqual(self.store.lookup(**G1, last_tier="exact").tier, "exact")

    def test_a_device_may_be_given_by_its_numbers(self):
        device = self.store.device("h200")
        self.assertEqual((device.capability_major, device.sms, device.driver), (9, 132, 0))
        self.assertEqual(self.store.lookup(**G1, device=device), self.store.lookup(**G1))
        other = dataclasses.replace(device, driver=12000)
        self.assertEqual(self.store.lookup(**G1, device=other).match, "driver")
        self.assertIsNone(self.store.lookup(**G1, device=dataclasses.replace(device, sms=7)))

    def test_bad_arguments_are_refused_in_words(self):
        for changed, words in (({"kind": "gemm"}, "kind is 'gemm': it must be one of gemm_chain"),
                               ({"dtype": "f32"}, "dtype is 'f32'"), ({"act": "tanh"}, "act is 'tanh'"),
                               ({"last_tier": "best"}, "last_tier is 'best'"),
                               ({"m": 0}, "m"), ({"m": -1}, "m"), ({"m": 1.5}, "m is 1.5: .*whole number"),
                               ({"k": 2**64}, "64 bits"), ({"k1": 3}, "conv_chain's"),
                               ({"n": True}, "whole number")):
            with self.assertRaisesRegex(fuseplan.UsageError, words):
                self.store.lookup(**{**G1, **changed})
        with self.assertRaisesRegex(ValueError, "l is missing"):
            self.store.lookup("conv_chain", 0, 64, 0, batch=1, ic=64, h=56, w=56, k1=3)

    def test_a_conv_chain_is_looked_up_by_its_image(self):
        with self.assertRaisesRegex(fuseplan.NoPlan, "conv_chain .*batch=1 ic=64 h=56 w=56 k1=1"):
            self.store.lookup("conv_chain", 0, 256, 0, 64, batch=1, ic=64, h=56, w=56, k1=1, require_hit=True)

    def test_answers_cannot_be_changed(self):
        with self.assertRaises(dataclasses.FrozenInstanceError):
            self.store.lookup(**G1).tier = "nearest"

    def test_the_upper_layer_answers_first(self):
        with fuseplan.Store([predicted_database(), shipped_database()]) as store:
            # measured is trusted before predicted, whatever the layer
            self.assertEqual(store.lookup(**G1).layer, 1)
            self.assertEqual(store.lookup("gated_ffn", 128, 11008, 4096).layer, 1)
        copy = scratch() / "copy.db"
        run_fuseplan("merge", shipped_database(), "--db", copy)
        with fuseplan.Store([copy, shipped_database()]) as store:
            self.assertEqual(store.lookup(**G1).layer, 0)
        os.remove(copy)


class Opening(Case):
    def test_what_cannot_be_opened_says_why(self):
        text = scratch() / "text.db"
        text.write_text("no database, whatever its name may be")
        for paths, error in (("/nowhere.db", fuseplan.FileError), ([], fuseplan.UsageError),
                             ([""], fuseplan.UsageError), (text, fuseplan.DatabaseError)):
            with self.assertRaises(error) as raised:
                fuseplan.Store(paths)
            self.assertNotIn("\n", str(raised.exception))
            self.assertNotEqual(str(raised.exception), "")
        with self.assertRaises(OSError):
            fuseplan.Store("/nowhere.db")

    def test_a_closed_store_refuses(self):
        store = fuseplan.Store(shipped_database())
        store.close()
        store.close()
        with self.assertRaisesRegex(fuseplan.UsageError, "closed"):
            store.lookup(**G1)

    def test_closing_beside_lookups_of_other_threads_harms_none(self):
        store = fuseplan.Store(shipped_database())
        wanted, wrong, begun = store.lookup(**G1), [], threading.Barrier(5)

        def look_up():
            begun.wait()
            try:
                for _ in range(2000):
                    if store.lookup(**G1) != wanted:
                        wrong.append("another answer")
            except fuseplan.UsageError as error:
                if "closed" not in str(error):
                    wrong.append(error)

        threads = [threading.Thread(target=look_up) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        threading.Event().wait(0.02)
        store.close()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_a_forked_process_opens_its_own(self):
        self.runs(f"""
import os, sys, fuseplan
os.environ["FUSEPLAN_DB"] = {shipped_database()!r}
store = fuseplan.Store(); assert fuseplan.lookup(**{G1!r})
child = os.fork()
if child == 0:
    try:
        store.lookup(**{G1!r})
    except fuseplan.UsageError as error:
        os._exit(0 if "forked" in str(error) and fuseplan.lookup(**{G1!r}) else 1)
    os._exit(2)
assert os.waitpid(child, 0)[1] == 0
assert store.lookup(**{G1!r})
""")


class DefaultLayers(Case):
    CODE = "import fuseplan; print(fuseplan.default_paths())"

    def layers(self, **environment):
        return self.runs(self.CODE, **environment)

    def test_the_users_database_stands_over_the_programs_own(self):
        self.assertEqual(self.layers(FUSEPLAN_DB=predicted_database(), FUSEPLAN_SYSTEM_DB=shipped_database()),
                         str([predicted_database(), shipped_database()]))

    def test_a_users_database_that_is_not_there_is_left_out(self):
        self.assertEqual(self.layers(FUSEPLAN_DB="/nowhere.db", FUSEPLAN_SYSTEM_DB=shipped_database()),
                         str([shipped_database()]))

    def test_the_folders_of_the_desktop_standard(self):
        home = scratch() / "home"
        for base in (home / ".local/share", home / "data"):
            (base / "fuseplan").mkdir(parents=True)
            (base / "fuseplan/plans.db").write_text("")
        below_home = dict(FUSEPLAN_DB=None, HOME=str(home))
        self.assertEqual(self.layers(**below_home, XDG_DATA_HOME=str(home / "data")),
                         str([str(home / "data/fuseplan/plans.db")]))
        self.assertEqual(self.layers(**below_home, XDG_DATA_HOME="data"),
                         str([str(home / ".local/share/fuseplan/plans.db")]))

    def test_the_programs_own_database_stands_beside_the_library_or_below_the_prefix(self):
        prefix = scratch() / "prefix"
        (prefix / "lib").mkdir(parents=True)
        (prefix / "share/fuseplan").mkdir(parents=True)
        library = prefix / "lib/libfuseplan.so.0"
        library.symlink_to(BUILD / "libfuseplan.so.0")
        own = dict(FUSEPLAN_DB="", FUSEPLAN_SYSTEM_DB=None, FUSEPLAN_LIBRARY=str(library))
        (prefix / "share/fuseplan/plans.db").write_text("")
        self.assertEqual(self.layers(**own), str([str(prefix / "share/fuseplan/plans.db")]))
        (prefix / "lib/plans.db").write_text("")
        self.assertEqual(self.layers(**own), str([str(prefix / "lib/plans.db")]))

    def test_no_database_at_all_is_one_clear_line(self):
        for chosen, why in (("/nowhere.db", "/nowhere.db does not exist"), ("", "FUSEPLAN_DB is empty")):
            status, output = python(self.CODE, FUSEPLAN_DB=chosen)
            self.assertEqual(status, 1)
            self.assertRegex(output.strip().splitlines()[-1], f"FileError: no plan database: {why}: tune")


FAKE = BUILD / "tests/fakes/libcuda.so.1"
LAUNCH = """
import ctypes, fuseplan
cuda = ctypes.CDLL("libcuda.so.1")
class State(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("loads", "unloads", "maps", "launches", "pushes", "pops",
                                                  "sms", "is_failing")]
    _fields_ += [("stream", ctypes.c_void_p), ("context", ctypes.c_void_p), ("grid", ctypes.c_uint),
                 ("cluster", ctypes.c_uint), ("is_cooperative", ctypes.c_int), ("m", ctypes.c_int),
                 ("e", ctypes.c_uint64), ("workspace", ctypes.c_uint64)]
cuda.fake_cuda_state.restype = ctypes.POINTER(State)
state = cuda.fake_cuda_state().contents
context = ctypes.create_string_buffer(1)
cuda.cuCtxSetCurrent(context)
store = fuseplan.Store(%r)
answer = store.lookup(**%r, runnable=True, device=store.current_device())
"""


class Kernels(Case):
    def setUp(self):
        if not FAKE.exists():
            self.skipTest("no CUDA headers: there is no fake libcuda")
        with fuseplan.Store(predicted_database()) as store:
            if not store.lookup(**G1).has_kernel:
                self.skipTest("no NVRTC: plans have no machine code")

    def on_fake(self, code):
        self.runs(LAUNCH % (predicted_database(), G1) + code, LD_LIBRARY_PATH=str(FAKE.parent))

    def test_a_kernel_is_loaded_launched_and_released(self):
        self.on_fake("""
assert store.current_device().driver > 0
kernel = store.load(answer)
assert state.loads == 1 and kernel.workspace_bytes(128) >= 0
store.close()  # the kernel keeps what it needs
kernel.launch(128, 1 << 12, 1 << 13, 1 << 14, 1 << 15, workspace=1 << 16, stream=77)
assert (state.launches, state.stream, state.e) == (1, 77, 1 << 15), state.launches
kernel.release(); kernel.release()
assert state.unloads == 1
""")

    def test_bad_launches_are_refused(self):
        self.on_fake("""
kernel = store.load(answer)
for m, e, error in ((0, 1 << 15, fuseplan.UsageError), (128, 8, fuseplan.UsageError), (128, 0, fuseplan.UsageError)):
    try:
        kernel.launch(m, 1 << 12, 1 << 13, 1 << 14, e)
        raise SystemExit("launched")
    except error:
        pass
try:
    kernel.workspace_bytes(0)
    raise SystemExit("0 rows")
except fuseplan.UsageError:
    pass
state.is_failing = 1
try:
    kernel.launch(128, 1 << 12, 1 << 13, 1 << 14, 1 << 15)
    raise SystemExit("launched")
except fuseplan.DeviceError as error:
    assert error.status == 60
""")
