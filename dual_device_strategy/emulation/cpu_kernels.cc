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
// What needs CUDA and has no CPU kernel is refused with a sentence, as CUDA's
// own kernel would crash.
//
// The work happens in the turn of the device's compute stream and counts as
// its compute time.  Unlike CUDA's, such a kernel keeps the calling thread
// until it is done; and the host's processors do the computing.  What only
// passes a pointer starts nothing on the device, and waits for nothing.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tensorflow/core/framework/kernel_def.pb.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow_device.h"

namespace emulated_gpu {
namespace {

using namespace tensorflow;  // NOLINT: this file is all about its classes

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
    passes_a_pointer_ = construction->def().op() == "AssignVariableOp" ||
                        construction->def().op() == "Bitcast";
  }

  void Compute(OpKernelContext* context) override {
    // What has all its data in host memory is computed by the host, CUDA or
    // not, and must not wait for the device.
    if (!on_device_ || passes_a_pointer_ ||
        context->op_device_context() == nullptr) {
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
  bool passes_a_pointer_ = false;
};

class RefusedOnGpu : public OpKernel {
 public:
  explicit RefusedOnGpu(OpKernelConstruction* construction)
      : OpKernel(construction) {
    construction->CtxFailure(absl::UnimplementedError(absl::StrCat(
        "The op ", type_string(), " cannot run on an emulated GPU: it needs "
        "CUDA, and TensorFlow has no CPU kernel for it that could stand in. "
        "Use another op, or place it on a device that has it. The op is ",
        SummarizeNodeDef(construction->def()))));
  }
  void Compute(OpKernelContext*) override {}
};

// tf.test.experimental.sync_devices().
class SyncDeviceOnGpu : public OpKernel {
 public:
  using OpKernel::OpKernel;
  void Compute(OpKernelContext* context) override {
    SP_Stream stream = ComputeStream(context);
    if (stream != nullptr) stream->device->Drain();
  }
};

struct GpuKernel {
  const char* op;
  const char* host_arguments;  // "a,b"
  const char* constraints;     // "T=1,2;Tidx=3,9;data_format:NHWC,NCHW"
};

#include "gpu_kernels.inc"

using KernelsOfOp =
    absl::flat_hash_map<std::string, std::vector<const KernelDef*>>;

// Whether some kernel accepts the value, by itself.
bool Accepts(const std::vector<const KernelDef*>& kernels,
             const std::string& attribute, int type, absl::string_view text) {
  for (const KernelDef* kernel : kernels) {
    bool accepts = true;
    for (const auto& constraint : kernel->constraint()) {
      if (constraint.name() != attribute) continue;
      const auto& allowed = constraint.allowed_values().list();
      accepts = type != 0 ? absl::c_linear_search(allowed.type(), type)
                          : absl::c_linear_search(allowed.s(), text);
    }
    if (accepts) return true;
  }
  return false;
}

// The kernel's definition, for those values that `others` accept; null if
// nothing is left.
std::unique_ptr<KernelDef> Definition(
    const GpuKernel& kernel, const std::vector<const KernelDef*>& others) {
  auto definition = std::make_unique<KernelDef>();
  definition->set_op(kernel.op);
  for (absl::string_view name :
       absl::StrSplit(kernel.host_arguments, ',', absl::SkipEmpty())) {
    definition->add_host_memory_arg(std::string(name));
  }
  for (absl::string_view text :
       absl::StrSplit(kernel.constraints, ';', absl::SkipEmpty())) {
    const size_t sign = text.find_first_of("=:");
    const std::string attribute(text.substr(0, sign));
    auto* constraint = definition->add_constraint();
    constraint->set_name(attribute);
    auto* allowed = constraint->mutable_allowed_values()->mutable_list();
    for (absl::string_view value : absl::StrSplit(text.substr(sign + 1), ',')) {
      int type = 0;
      if (text[sign] == '=' && !absl::SimpleAtoi(value, &type)) return nullptr;
      if (!Accepts(others, attribute, type, value)) continue;
      if (type != 0) {
        allowed->add_type(static_cast<DataType>(type));
      } else {
        allowed->add_s(std::string(value));
      }
    }
    if (allowed->type().empty() && allowed->s().empty()) return nullptr;
  }
  return definition;
}

template <typename Kernel>
void RegisterOnGpu(std::unique_ptr<KernelDef> definition, int priority) {
  definition->set_device_type(DEVICE_GPU);
  definition->set_priority(priority);
  // The registrar takes ownership.
  kernel_factory::OpKernelRegistrar(
      definition.release(), "EmulatedGpuKernel",
      [](OpKernelConstruction* construction) -> OpKernel* {
        return new Kernel(construction);
      });
}

// Registers those of the table that stand beside kernels of the type `beside`.
template <typename Kernel, size_t size>
int Register(const GpuKernel (&table)[size], const char* beside, int priority) {
  const KernelList list = GetAllRegisteredKernels();
  KernelsOfOp kernels;
  for (const KernelDef& kernel : list.kernel()) {
    if (kernel.device_type() == beside && kernel.label().empty()) {
      kernels[kernel.op()].push_back(&kernel);
    }
  }
  int count = 0;
  for (const GpuKernel& kernel : table) {
    const auto others = kernels.find(kernel.op);
    if (others == kernels.end()) continue;
    std::unique_ptr<KernelDef> definition = Definition(kernel, others->second);
    if (definition == nullptr) continue;
    RegisterOnGpu<Kernel>(std::move(definition), priority);
    ++count;
  }
  return count;
}

}  // namespace

int RegisterCpuKernels() {
  // TensorFlow itself uses the priorities 0 to 2.
  Register<RefusedOnGpu>(kRefused, DEVICE_GPU, 999);
  auto sync_device = std::make_unique<KernelDef>();
  sync_device->set_op("SyncDevice");
  RegisterOnGpu<SyncDeviceOnGpu>(std::move(sync_device), 1000);
  return Register<CpuKernelOnGpu>(kRunOnCpu, DEVICE_CPU, 1000);
}

}  // namespace emulated_gpu
