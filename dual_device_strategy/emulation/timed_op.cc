// The op that takes a given time: on an emulated GPU it holds the compute
// stream, on a CPU it waits; neither uses a core meanwhile.
//
// It hands its tensors on without a copy, and so takes no memory.

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow_device.h"

namespace emulated_gpu {
namespace {

using namespace tensorflow;  // NOLINT: this file is all about its classes

// TensorFlow's graph optimizers would merge two equal calls, and compute one
// with constant inputs while they optimize.  Calling the op stateful would stop
// them, and also keep TensorFlow from running two of them at the same time on
// two devices, because a function runs its stateful ops in order.  So instead:
// Grappler leaves an op alone whose name says that it works in place, the older
// optimizer merges no two nodes whose attributes differ (`call`), and for its
// folding of constants see IsFoldingConstants().
constexpr char kOp[] = "TimedInPlace";

// The time comes as microseconds in host memory or as milliseconds in device
// memory, so that neither a number nor a computed time has to cross the link
// before the op can be enqueued.
REGISTER_OP("TimedInPlace")
    .Input("tensors: T")
    .Input("host_us: hosts * int32")
    .Input("device_ms: devices * float")
    .Output("same: T")
    .Attr("T: list(type) >= 1")
    .Attr("hosts: int >= 0")
    .Attr("devices: int >= 0")
    .Attr("call: int")
    .SetShapeFn([](shape_inference::InferenceContext* context) {
      shape_inference::ShapeHandle scalar;
      for (int i = 0; i < context->num_inputs(); ++i) {
        if (i < context->num_outputs()) {
          context->set_output(i, context->input(i));
        } else {
          TF_RETURN_IF_ERROR(context->WithRank(context->input(i), 0, &scalar));
        }
      }
      return absl::OkStatus();
    });

// A computed time that is no time is none: draws of a normal distribution may
// well be negative.
Duration FromMilliseconds(float ms) { return Seconds(ms > 0 ? 1e-3 * ms : 0); }

struct Times {
  Duration host{0};
  std::vector<const float*> device_ms;
};

// Hands the tensors on and finds the times.
Times Forward(OpKernelContext* context) {
  Times times;
  for (int i = 0; i < context->num_inputs(); ++i) {
    if (i < context->num_outputs()) {
      context->set_output(i, context->input(i));
    } else if (context->input_dtype(i) == DT_INT32) {
      times.host += std::chrono::microseconds(context->input(i).scalar<int>()());
    } else {
      times.device_ms.push_back(context->input(i).scalar<float>().data());
    }
  }
  return times;
}

// TensorFlow folds constants before it runs a graph, on a CPU device of its own
// that no job has.  Folding gives up quietly on an op that fails there.
bool IsFoldingConstants(OpKernelContext* context) {
  const auto* device = dynamic_cast<const tensorflow::Device*>(context->device());
  return device == nullptr || !device->parsed_name().has_job;
}

class Sleep {
 public:
  // Whether it was cancelled before the time came.
  bool Until(Time end) {
    WakeUpPrecisely();
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_until(lock, end, [this] { return cancelled_; });
  }

  void Cancel() {
    std::lock_guard<std::mutex> lock(mutex_);
    cancelled_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false;
};

class TimedOnCpu : public AsyncOpKernel {
 public:
  using AsyncOpKernel::AsyncOpKernel;

  void ComputeAsync(OpKernelContext* context, DoneCallback done) override {
    OP_REQUIRES_ASYNC(context, !IsFoldingConstants(context),
                      absl::UnavailableError("Time passes in the run only."),
                      done);
    const Time begin = Clock::now();
    const Times times = Forward(context);
    Time end = begin + times.host;
    for (const float* ms : times.device_ms) end += FromMilliseconds(*ms);
    if (end == begin) return done();
    auto sleep = std::make_shared<Sleep>();
    CancellationManager* cancellation = context->cancellation_manager();
    CancellationToken token{};
    if (cancellation != nullptr) {
      token = cancellation->get_cancellation_token();
      if (!cancellation->RegisterCallback(token, [sleep] { sleep->Cancel(); })) {
        context->SetStatus(absl::CancelledError("Cancelled before it began."));
        return done();
      }
    }
    // A thread of its own: TensorFlow has as few as the machine has cores.
    std::thread([=, done = std::move(done)] {
      const bool cancelled = sleep->Until(end);
      if (cancellation != nullptr) cancellation->DeregisterCallback(token);
      if (cancelled) {
        context->SetStatus(absl::CancelledError("Cancelled while it slept."));
      }
      done();
    }).detach();
  }
};
REGISTER_KERNEL_BUILDER(Name(kOp).Device(DEVICE_CPU), TimedOnCpu);

class TimedOnGpu : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    SP_Stream stream = ComputeStream(context);
    OP_REQUIRES(context, stream != nullptr,
                absl::InternalError("The device has no compute stream."));
    // As a CUDA kernel: enqueued while the caller goes on, and reading device
    // memory in its turn.
    stream->Push([stream, times = Forward(context)] {
      Duration duration = times.host;
      for (const float* ms : times.device_ms) duration += FromMilliseconds(*ms);
      stream->Compute(duration);
    });
  }
};

}  // namespace

void RegisterTimedOpOnGpu() {
  auto* definition = new KernelDef;  // the registrar takes ownership
  definition->set_op(kOp);
  definition->set_device_type(DEVICE_GPU);
  definition->add_host_memory_arg("host_us");
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
