// The op that takes a given time: on an emulated GPU it holds the compute
// stream, on a CPU it waits; neither uses a core meanwhile.
//
// It hands its tensors on without a copy, and so takes no memory.

#include <cmath>
#include <utility>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow_device.h"

namespace emulated_gpu {
namespace {

using namespace tensorflow;  // NOLINT: this file is all about its classes

// TensorFlow's graph optimizers would merge two equal calls, and compute one
// with constant inputs while they optimize.  They leave an op alone whose name
// says that it works in place.  Calling it stateful instead would keep
// TensorFlow from running two of them at the same time on two devices, because
// a function runs its stateful ops in order.
constexpr char kOp[] = "TimedInPlace";

REGISTER_OP("TimedInPlace")
    .Input("tensors: T")
    .Input("ms: float")
    .Output("same: T")
    .Attr("T: list(type) >= 1")
    .SetShapeFn([](shape_inference::InferenceContext* context) {
      shape_inference::ShapeHandle scalar;
      const int last = context->num_inputs() - 1;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(last), 0, &scalar));
      for (int i = 0; i < last; ++i) {
        context->set_output(i, context->input(i));
      }
      return absl::OkStatus();
    });

// Hands the tensors on and returns the milliseconds to take, or a negative
// number after an error.
float Forward(OpKernelContext* context) {
  const int last = context->num_inputs() - 1;
  const float ms = context->input(last).scalar<float>()();
  if (!(ms >= 0) || std::isinf(ms)) {
    context->CtxFailure(absl::InvalidArgumentError(
        absl::StrCat("The time must be a number of milliseconds from 0 on, "
                     "got ms=", ms)));
    return -1;
  }
  for (int i = 0; i < last; ++i) context->set_output(i, context->input(i));
  return ms;
}

class TimedOnCpu : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    const float ms = Forward(context);
    if (ms <= 0) return done();
    // A thread of its own: TensorFlow has as few as the machine has cores.
    Env::Default()->SchedClosureAfter(static_cast<int64_t>(1e3 * ms),
                                      std::move(done));
  }
};
REGISTER_KERNEL_BUILDER(Name(kOp).Device(DEVICE_CPU), TimedOnCpu);

class TimedOnGpu : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    const float ms = Forward(context);
    if (ms < 0) return;
    SP_Stream stream = ComputeStream(context);
    OP_REQUIRES(context, stream != nullptr,
                absl::InternalError("The device has no compute stream."));
    // As a CUDA kernel: enqueued, while the caller goes on.
    stream->Push([=] { stream->Compute(Seconds(1e-3 * ms)); });
  }
};

}  // namespace

void RegisterTimedOpOnGpu() {
  auto* definition = new KernelDef;  // the registrar takes ownership
  definition->set_op(kOp);
  definition->set_device_type(DEVICE_GPU);
  definition->add_host_memory_arg("ms");
  auto* constraint = definition->add_constraint();
  constraint->set_name("T");
  for (DataType type :
       {DT_FLOAT, DT_DOUBLE, DT_HALF, DT_BFLOAT16, DT_INT8, DT_INT16, DT_INT32,
        DT_INT64, DT_UINT8, DT_UINT16, DT_UINT32, DT_UINT64, DT_BOOL,
        DT_COMPLEX64, DT_COMPLEX128}) {
    constraint->mutable_allowed_values()->mutable_list()->add_type(type);
  }
  kernel_factory::OpKernelRegistrar(
      definition, "TimedOnGpu",
      [](OpKernelConstruction* construction) -> OpKernel* {
        return new TimedOnGpu(construction);
      });
}

}  // namespace emulated_gpu
