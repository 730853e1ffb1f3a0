// Runs TensorFlow's own CPU kernels on the emulated GPUs.
//
// The emulated device can hold variables and receive data, but has no kernels
// to compute with: a CPU build of TensorFlow has none for GPU, and a CUDA
// build has some that need a real one.  So for every kernel that needs CUDA
// (gpu_kernels.inc) this registers one for the same types and memory
// placement, at a priority above any other, that does its work with the op's
// CPU kernel.  That is possible because
//   - emulated device memory can be read and written by the host;
//   - TensorFlow's GPU devices also carry the thread pool of CPU kernels;
//   - a kernel takes its memory from the device in its context, so that what a
//     CPU kernel allocates here counts as device memory and has its limit.
//
// The work happens in the turn of the device's compute stream and counts as
// its compute time.  Unlike CUDA's, such a kernel keeps the calling thread
// until it is done; and the host's processors do the computing.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_split.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow_device.h"

namespace emulated_gpu {
namespace {

using namespace tensorflow;  // NOLINT: this file is all about its classes

constexpr int kPriority = 1000;  // TensorFlow itself uses 0 to 2

class CpuKernelOnGpu : public OpKernel {
 public:
  explicit CpuKernelOnGpu(OpKernelConstruction* construction)
      : OpKernel(construction) {
    std::shared_ptr<const NodeProperties> properties;
    OP_REQUIRES_OK(construction,
                   NodeProperties::CreateFromNodeDef(
                       construction->def(), OpRegistry::Global(), &properties));
    // A kernel of type CPU on a device of type GPU, which TensorFlow allows.
    DeviceBase* device = construction->device();
    OpKernel* kernel = nullptr;
    OP_REQUIRES_OK(
        construction,
        CreateOpKernel(DeviceType(DEVICE_CPU), device,
                       device->GetAllocator(AllocatorAttributes()),
                       construction->function_library(),
                       construction->resource_manager(), properties,
                       construction->graph_def_version(), &kernel));
    cpu_kernel_.reset(kernel);
    OP_REQUIRES(construction, cpu_kernel_->AsAsync() == nullptr,
                absl::UnimplementedError("An asynchronous CPU kernel cannot "
                                         "take its turn in a stream."));
    for (MemoryType type : input_memory_types()) {
      on_device_ |= type == DEVICE_MEMORY;
    }
    for (MemoryType type : output_memory_types()) {
      on_device_ |= type == DEVICE_MEMORY;
    }
  }

  void Compute(OpKernelContext* context) override {
    // What has all its data in host memory is computed by the host, CUDA or
    // not, and must not wait for the device.
    if (!on_device_ || context->op_device_context() == nullptr) {
      return cpu_kernel_->Compute(context);
    }
    SP_Stream stream = ComputeStream(context);
    OP_REQUIRES(context, stream != nullptr,
                absl::InternalError("The device has no compute stream."));
    stream->RunHere([&] { cpu_kernel_->Compute(context); });
  }

 private:
  std::unique_ptr<OpKernel> cpu_kernel_;
  bool on_device_ = false;
};

struct GpuKernel {
  const char* op;
  const char* host_arguments;  // "a,b"
  const char* types;           // "T=1,2;Tidx=3,9", by number of DataType
};

const GpuKernel kGpuKernels[] = {
#include "gpu_kernels.inc"
};

KernelDef Definition(const GpuKernel& kernel) {
  KernelDef definition;
  definition.set_op(kernel.op);
  definition.set_device_type(DEVICE_GPU);
  definition.set_priority(kPriority);
  for (absl::string_view name :
       absl::StrSplit(kernel.host_arguments, ',', absl::SkipEmpty())) {
    definition.add_host_memory_arg(std::string(name));
  }
  for (absl::string_view attribute :
       absl::StrSplit(kernel.types, ';', absl::SkipEmpty())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(attribute, '=');
    auto* constraint = definition.add_constraint();
    constraint->set_name(std::string(parts.first));
    auto* allowed = constraint->mutable_allowed_values()->mutable_list();
    for (absl::string_view type : absl::StrSplit(parts.second, ',')) {
      allowed->add_type(static_cast<DataType>(std::stoi(std::string(type))));
    }
  }
  return definition;
}

}  // namespace

int RegisterCpuKernels() {
  int count = 0;
  for (const GpuKernel& kernel : kGpuKernels) {
    const OpDef* op = nullptr;
    if (!OpRegistry::Global()->LookUpOpDef(kernel.op, &op).ok()) continue;
    // The registrar takes ownership.
    kernel_factory::OpKernelRegistrar(
        new KernelDef(Definition(kernel)), "CpuKernelOnGpu",
        [](OpKernelConstruction* construction) -> OpKernel* {
          return new CpuKernelOnGpu(construction);
        });
    ++count;
  }
  return count;
}

}  // namespace emulated_gpu
