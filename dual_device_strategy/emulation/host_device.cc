// The CPU device beside the emulated GPUs.
//
// As beside CUDA's, memory that is asked for as "GPU compatible" is pinned.
// Beside plugged-in devices TensorFlow's own CPU device knows no such memory.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow_device.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_process_state.h"
#include "tensorflow/core/common_runtime/process_state.h"
#include "tensorflow/core/common_runtime/threadpool_device.h"
#include "tensorflow/core/public/session_options.h"

namespace emulated_gpu {
namespace {

namespace tf = tensorflow;

class HostDevice : public tf::ThreadPoolDevice {
 public:
  HostDevice(const tf::SessionOptions& options, const std::string& name)
      : tf::ThreadPoolDevice(options, name, tf::Bytes(256 << 20),
                             tf::DeviceLocality(),
                             tf::ProcessState::singleton()->GetCPUAllocator(0)),
        all_pinned_(options.config.gpu_options().force_gpu_compatible()) {}

  tf::Allocator* GetAllocator(tf::AllocatorAttributes attributes) override {
    if (!attributes.gpu_compatible() && !all_pinned_) {
      return tf::ThreadPoolDevice::GetAllocator(attributes);
    }
    return tf::PluggableDeviceProcessState::singleton("GPU", "EMULATED")
        ->GetPluggableDeviceHostAllocator(0);
  }

 private:
  const bool all_pinned_;
};

class Factory : public tf::DeviceFactory {
 public:
  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    devices->push_back("/physical_device:CPU:0");
    return absl::OkStatus();
  }

  absl::Status CreateDevices(
      const tf::SessionOptions& options, const std::string& name_prefix,
      std::vector<std::unique_ptr<tf::Device>>* devices) override {
    const auto& counts = options.config.device_count();
    const auto count = counts.find("CPU");
    for (int i = 0; i < (count == counts.end() ? 1 : count->second); ++i) {
      devices->push_back(std::make_unique<HostDevice>(
          options, absl::StrCat(name_prefix, "/device:CPU:", i)));
    }
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterHostDevice() {
  // TensorFlow uses 60 for its CPU device, 70 for that beside CUDA's.
  tf::DeviceFactory::Register("CPU", std::make_unique<Factory>(),
                              /*priority=*/1000,
                              /*is_pluggable_device=*/false);
}

}  // namespace emulated_gpu
