// Creates TensorFlow's devices on the emulated GPUs.
//
// TensorFlow's own factory for plugged-in devices offers two allocators: one
// that retries for ten seconds before it reports that memory is exhausted, and
// one that keeps no statistics.  It also ignores the limits and splits of
// tf.config.set_logical_device_configuration().  This factory does neither.

#include "tensorflow_device.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

// The headers of TensorFlow 2.19 want one of LLVM's, which the wheel does not
// carry, for this class, which only CUDA's devices need.
#if __has_include("xla/stream_executor/gpu/tma_metadata.h") && \
    !__has_include("llvm/ADT/ArrayRef.h")
#define XLA_STREAM_EXECUTOR_GPU_TMA_METADATA_H_
namespace stream_executor::gpu {
class TmaDescriptor {};
}  // namespace stream_executor::gpu
#endif

#include "absl/strings/str_cat.h"
#include "controls.h"
#include "machine.h"
#include "tensorflow/core/common_runtime/device/device_id_manager.h"
#include "xla/tsl/framework/device_id_utils.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_factory.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_process_state.h"
#include "tensorflow/core/common_runtime/pluggable_device/pluggable_device_util.h"
#include "tensorflow/core/common_runtime/process_state.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/public/session_options.h"

namespace emulated_gpu {
namespace {

namespace tf = tensorflow;

constexpr char kType[] = "GPU";
constexpr char kPlatform[] = "EMULATED";  // as in plugin.cc

// How long an allocation waits for others to return memory, as TensorFlow's
// allocator for GPUs does, but not for its ten seconds.
constexpr std::chrono::milliseconds kPatience(1000);

class Allocator : public tf::Allocator {
 public:
  Allocator(std::string name, MemoryPool* pool)
      : name_(std::move(name)), pool_(pool) {}

  std::string Name() override { return name_; }

  void* AllocateRaw(size_t, size_t bytes) override {
    return pool_->Allocate(bytes, kPatience);
  }

  void* AllocateRaw(size_t, size_t bytes,
                    const tf::AllocationAttributes& attributes) override {
    return pool_->Allocate(bytes, attributes.retry_on_failure
                                      ? kPatience
                                      : std::chrono::milliseconds(0));
  }

  void DeallocateRaw(void* address) override { pool_->Free(address); }

  std::optional<tsl::AllocatorStats> GetStats() override {
    const MemoryCounts counts = pool_->Counts();
    tsl::AllocatorStats stats;
    stats.num_allocs = counts.allocations;
    stats.bytes_in_use = counts.live;
    stats.peak_bytes_in_use = counts.peak;
    stats.largest_alloc_size = counts.largest;
    stats.bytes_limit = counts.limit;
    return stats;
  }

  bool ClearStats() override {
    pool_->ClearPeak();
    return true;
  }

  tsl::AllocatorMemoryType GetMemoryType() const override {
    return tsl::AllocatorMemoryType::kDevice;
  }

 private:
  const std::string name_;
  MemoryPool* const pool_;
};

// Sessions that have the same device share its streams, and so its memory.  It
// is never destroyed, because tensors may outlive the device.
Allocator* AllocatorOf(int id, int64_t limit, DeviceMemory* memory) {
  static auto* mutex = new std::mutex;
  static auto* allocators = new std::map<int, Allocator*>;
  std::lock_guard<std::mutex> lock(*mutex);
  Allocator*& allocator = (*allocators)[id];
  if (allocator == nullptr) {
    allocator = new Allocator(absl::StrCat("emulated_gpu_", id),
                              memory->AddPool(limit));
  }
  return allocator;
}

// TensorFlow waits for a device before it reads its memory.  A plugged-in device
// then waits for all its streams, and so for copies that have nothing to do with
// what is read.  CUDA's devices wait for the compute stream only, because every
// copy waits by itself until its bytes are there.
class ComputeSyncedDevice : public tf::PluggableDevice {
 public:
  using tf::PluggableDevice::PluggableDevice;

  absl::Status Sync() override { return tf::PluggableDeviceUtil::Sync(this); }
};

class Factory : public tf::PluggableDeviceFactory {
 public:
  Factory() : tf::PluggableDeviceFactory(kType, kPlatform) {}

  absl::Status CreateDevices(
      const tf::SessionOptions& options, const std::string& name_prefix,
      std::vector<std::unique_ptr<tf::Device>>* devices) override {
    const auto& config = options.config.gpu_options();
    std::vector<tsl::PlatformDeviceId> visible;
    const auto count = options.config.device_count().find(kType);
    if (count == options.config.device_count().end() || count->second > 0) {
      TF_RETURN_IF_ERROR(tsl::ParseVisibleDeviceList(
          config.visible_device_list(), Machine::Get().device_count(),
          &visible));
      if (count != options.config.device_count().end() &&
          count->second < static_cast<int>(visible.size())) {
        visible.resize(count->second);
      }
    }
    int id = 0;
    for (size_t i = 0; i < visible.size(); ++i) {
      const int ordinal = visible[i].value();
      const int64_t memory = Machine::Get().device(ordinal).memory.limit();
      // One TensorFlow device with all the memory, or what was configured.
      std::vector<int64_t> limits;
      if (static_cast<int>(i) < config.experimental().virtual_devices_size()) {
        for (float mb : config.experimental()
                            .virtual_devices(static_cast<int>(i))
                            .memory_limit_mb()) {
          limits.push_back(static_cast<int64_t>(mb) << 20);
        }
      }
      if (limits.empty()) limits.push_back(memory);
      int64_t total = 0;
      for (int64_t limit : limits) total += limit;
      if (total > memory) {
        return absl::InvalidArgumentError(absl::StrCat(
            "The logical devices of emulated GPU ", ordinal, " ask for ",
            total >> 20, " MB, but it has ", memory >> 20,
            " MB: ask for less, or start the emulation with more memory_mb."));
      }
      for (int64_t limit : limits) {
        TF_RETURN_IF_ERROR(
            Create(options, name_prefix, id++, ordinal, limit, devices));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Create(const tf::SessionOptions& options,
                      const std::string& name_prefix, int id, int ordinal,
                      int64_t memory_limit,
                      std::vector<std::unique_ptr<tf::Device>>* devices) {
    const tsl::TfDeviceId tf_id(id);
    TF_RETURN_IF_ERROR(tsl::DeviceIdManager::InsertTfPlatformDeviceIdPair(
        tf::DeviceType(kType), tf_id, tsl::PlatformDeviceId(ordinal)));
    // Host memory for copies is found through this one.
    tf::PluggableDeviceProcessState::singleton(kType, kPlatform)
        ->GetPluggableDeviceAllocator(options.config.gpu_options(), tf_id,
                                      memory_limit);
    tf::DeviceLocality locality;
    locality.set_bus_id(1);
    Device& owner = Machine::Get().device(ordinal);
    auto device = std::make_unique<ComputeSyncedDevice>(
        options, absl::StrCat(name_prefix, "/device:", kType, ":", id), kType,
        kPlatform, static_cast<tf::Bytes>(memory_limit), locality, tf_id,
        absl::StrCat("device: ", ordinal, ", name: Emulated GPU, pci bus id: ",
                     owner.bus_id),
        AllocatorOf(id, memory_limit, &owner.memory),
        tf::ProcessState::singleton()->GetCPUAllocator(0),
        /*sync_every_op=*/false);
    TF_RETURN_IF_ERROR(device->Init(options));
    devices->push_back(std::move(device));
    return absl::OkStatus();
  }
};

}  // namespace

void RegisterDevices() {
  // TensorFlow uses 220 for plugged-in devices, 210 for CUDA's.
  tf::DeviceFactory::Register(kType, std::make_unique<Factory>(),
                              /*priority=*/1000, /*is_pluggable_device=*/true);
}

}  // namespace emulated_gpu

extern "C" int emulated_gpu_register_with_tensorflow(void) {
  emulated_gpu::RegisterDevices();
  emulated_gpu::RegisterHostDevice();
  emulated_gpu::RegisterTimedOpOnGpu();
  return emulated_gpu::RegisterCpuKernels();
}
