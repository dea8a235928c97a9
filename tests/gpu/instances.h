/* The kernels of instances.def: small ones on two problems, and some on a problem that fills the
 * device. Activations keep integers, so that results on integer inputs are exact. */
#ifndef FPL_TESTS_GPU_INSTANCES_H
#define FPL_TESTS_GPU_INSTANCES_H

#include "codegen/emit.h"
#include "tests/gpu/gpu_common.h"

enum instance_problem { INSTANCE_CHAIN, INSTANCE_GATED, INSTANCE_WIDE, N_INSTANCE_PROBLEMS };
static const struct fpl_problem instance_problems[] = {
    {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 200, 232, 136, 168, {0}},
    {FPL_KIND_GATED_FFN, FPL_DTYPE_BF16, FPL_ACT_RELU, 200, 264, 136, 128, {0}},
    {FPL_KIND_GEMM_CHAIN, FPL_DTYPE_F16, FPL_ACT_RELU, 256, 4096, 264, 1032, {0}},
};

static const struct instance {
  const char *name;
  enum instance_problem problem;
  const char *loops;
  struct fpl_schedule schedule; /* without its loops */
} instances[] = {
#define INSTANCE(name, problem, loops, exchange, reduce, gate, cls_m, cls_n, cls_k, cls_l, blk_m,  \
                 blk_n, blk_k, blk_l, stages)                                                      \
  {name,                                                                                           \
   INSTANCE_##problem,                                                                             \
   loops,                                                                                          \
   {0, cls_m, cls_n, cls_k, cls_l, blk_m, blk_n, blk_k, blk_l, FPL_EXCHANGE_##exchange,            \
    FPL_REDUCE_##reduce, FPL_GATE_##gate, stages}},
#include "tests/gpu/instances.def"
#undef INSTANCE
};
enum { N_INSTANCES = sizeof instances / sizeof *instances };

static struct fpl_schedule instance_schedule(const struct instance *instance) {
  struct fpl_schedule s = instance->schedule;
  s.loops = fpl_loops_index(instance->loops);
  return s;
}

/* Builds all of them, results[i] from instances[i]; results are freed by the caller in any case.
 * Errors: FPL_TOOLCHAIN naming the instance that was not built; those of the builder. */
static inline enum fpl_status instances_build(struct gpu_place *place,
                                              struct fpl_result results[N_INSTANCES],
                                              struct fpl_err *err) {
  const struct fpl_builder_port port = fpl_builder_port(place->builder);
  enum fpl_status status = FPL_OK;
  int n = 0;
  for (int i = 0; i < N_INSTANCES; i++)
    results[i] = (struct fpl_result){.schedule = instance_schedule(&instances[i])};
  /* Instances of one problem stand one after the other. */
  for (int first = 0; first < N_INSTANCES && status == FPL_OK; first += n) {
    for (n = 1;
         first + n < N_INSTANCES && instances[first + n].problem == instances[first].problem;)
      n++;
    status = port.build(port.self, &instance_problems[instances[first].problem], &place->device,
                        &results[first], n, NULL, NULL, err);
  }
  for (int i = 0; i < N_INSTANCES && status == FPL_OK; i++)
    if (!results[i].kernel.cubin)
      status = fpl_fail(err, FPL_TOOLCHAIN, "%s: %s", instances[i].name, results[i].reason);
  return status;
}

#endif
