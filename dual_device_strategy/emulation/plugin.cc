// The emulated GPUs as a TensorFlow PluggableDevice: the table of functions of
// TensorFlow's StreamExecutor C interface.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "machine.h"
#include "stream.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

struct SP_Timer_st {
  // Shared with the stream, which may outlive the timer.
  struct Span {
    std::atomic<int64_t> start_ns{0}, stop_ns{0};
  };
  std::shared_ptr<Span> span = std::make_shared<Span>();
};

namespace emulated_gpu {
namespace {

void Ok(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

Device* DeviceOf(const SP_Device* device) {
  return static_cast<Device*>(device->device_handle);
}

// ---------------------------------------------------------------- memory

void Allocate(const SP_Device* device, uint64_t size, int64_t,
              SP_DeviceMemoryBase* result) {
  result->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  result->opaque = DeviceOf(device)->memory.plugin_pool()->Allocate(
      size, std::chrono::milliseconds(0));
  result->size = result->opaque == nullptr ? 0 : size;
}

void Deallocate(const SP_Device* device, SP_DeviceMemoryBase* memory) {
  if (memory->opaque == nullptr) return;
  Device* owner = DeviceOf(device);
  owner->Drain();  // as cudaFree: streams may still use the memory
  owner->memory.plugin_pool()->Free(memory->opaque);
  memory->opaque = nullptr;
  memory->size = 0;
}

// Pinned memory of the host.
void* HostAllocate(const SP_Device*, uint64_t size) {
  constexpr uint64_t kAlignment = 256;
  size = (size + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, size);
  if (memory != nullptr) Machine::Get().pinned.Add(memory, size);
  return memory;
}

void HostDeallocate(const SP_Device*, void* memory) {
  Machine::Get().pinned.Remove(memory);
  std::free(memory);
}

TF_Bool AllocatorStats(const SP_Device* device, SP_AllocatorStats* stats) {
  const MemoryCounts counts = DeviceOf(device)->memory.Counts();
  stats->struct_size = SP_ALLOCATORSTATS_STRUCT_SIZE;
  stats->bytes_in_use = counts.live;
  stats->peak_bytes_in_use = counts.peak;
  stats->has_bytes_limit = 1;
  stats->bytes_limit = counts.limit;
  return 1;
}

TF_Bool MemoryUsage(const SP_Device* device, int64_t* free, int64_t* total) {
  const MemoryCounts counts = DeviceOf(device)->memory.Counts();
  *total = counts.limit;
  *free = std::max<int64_t>(0, counts.limit - counts.live);
  return 1;
}

// ---------------------------------------------------------------- copies

void EnqueueCopy(SP_Stream stream, void* to, const void* from, uint64_t bytes) {
  stream->Push([=] {
    Machine& machine = Machine::Get();
    Device* source = machine.Owner(from);
    Device* target = machine.Owner(to);
    const Time begin = Clock::now();
    std::memmove(to, from, bytes);
    const Time end = stream->clock() + (Clock::now() - begin);
    // A copy within one device crosses no link.
    if (source == target) return stream->AdvanceTo(end);
    machine.Transfer(source, target, bytes, stream->clock(), [=](Time booked) {
      stream->AdvanceTo(std::max(end, booked));
    });
  });
}

void MemcpyDeviceToHost(const SP_Device*, SP_Stream stream, void* to,
                        const SP_DeviceMemoryBase* from, uint64_t bytes,
                        TF_Status* status) {
  EnqueueCopy(stream, to, from->opaque, bytes);
  Ok(status);
}

void MemcpyHostToDevice(const SP_Device* device, SP_Stream stream,
                        SP_DeviceMemoryBase* to, const void* from,
                        uint64_t bytes, TF_Status* status) {
  Machine::Get().Stage(DeviceOf(device), from, bytes);
  EnqueueCopy(stream, to->opaque, from, bytes);
  Ok(status);
}

void MemcpyDeviceToDevice(const SP_Device*, SP_Stream stream,
                          SP_DeviceMemoryBase* to,
                          const SP_DeviceMemoryBase* from, uint64_t bytes,
                          TF_Status* status) {
  EnqueueCopy(stream, to->opaque, from->opaque, bytes);
  Ok(status);
}

// As on CUDA's default stream: after all enqueued work, blocking the caller.
void CopyNow(const SP_Device* device, void* to, const void* from,
             uint64_t bytes) {
  DeviceOf(device)->Drain();
  Machine& machine = Machine::Get();
  Device* source = machine.Owner(from);
  Device* target = machine.Owner(to);
  const Time begin = Clock::now();
  std::memmove(to, from, bytes);
  if (source == target) return;
  machine.Transfer(source, target, bytes, begin,
                   [](Time end) { std::this_thread::sleep_until(end); });
}

void SyncMemcpyDeviceToHost(const SP_Device* device, void* to,
                            const SP_DeviceMemoryBase* from, uint64_t bytes,
                            TF_Status* status) {
  CopyNow(device, to, from->opaque, bytes);
  Ok(status);
}

void SyncMemcpyHostToDevice(const SP_Device* device, SP_DeviceMemoryBase* to,
                            const void* from, uint64_t bytes,
                            TF_Status* status) {
  Machine::Get().Stage(DeviceOf(device), from, bytes);
  CopyNow(device, to->opaque, from, bytes);
  Ok(status);
}

void SyncMemcpyDeviceToDevice(const SP_Device* device, SP_DeviceMemoryBase* to,
                              const SP_DeviceMemoryBase* from, uint64_t bytes,
                              TF_Status* status) {
  CopyNow(device, to->opaque, from->opaque, bytes);
  Ok(status);
}

void Memset(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* memory,
            uint8_t pattern, uint64_t bytes, TF_Status* status) {
  void* to = memory->opaque;
  stream->Push([=] { std::memset(to, pattern, bytes); });
  Ok(status);
}

void MemZero(const SP_Device* device, SP_Stream stream,
             SP_DeviceMemoryBase* memory, uint64_t bytes, TF_Status* status) {
  Memset(device, stream, memory, 0, bytes, status);
}

void Memset32(const SP_Device*, SP_Stream stream, SP_DeviceMemoryBase* memory,
              uint32_t pattern, uint64_t bytes, TF_Status* status) {
  auto* to = static_cast<uint32_t*>(memory->opaque);
  stream->Push([=] { std::fill_n(to, bytes / sizeof(pattern), pattern); });
  Ok(status);
}

// ------------------------------------------------- streams, events, timers

void CreateStream(const SP_Device* device, SP_Stream* stream,
                  TF_Status* status) {
  *stream = SP_Stream_st::Start(DeviceOf(device)).get();
  Ok(status);
}

void DestroyStream(const SP_Device*, SP_Stream stream) { stream->Stop(); }

void Record(SP_Stream stream, std::shared_ptr<Recording> recording) {
  stream->Push([=] { recording->Complete(stream->clock()); });
}

void WaitFor(SP_Stream stream, std::shared_ptr<Recording> recording) {
  if (recording == nullptr) return;
  stream->Push([=] { stream->AdvanceTo(recording->Wait()); });
}

void CreateStreamDependency(const SP_Device*, SP_Stream dependent,
                            SP_Stream other, TF_Status* status) {
  auto recording = std::make_shared<Recording>();
  Record(other, recording);
  WaitFor(dependent, recording);
  Ok(status);
}

void StreamStatus(const SP_Device*, SP_Stream, TF_Status* status) {
  Ok(status);
}

void BlockUntilDone(const SP_Device*, SP_Stream stream, TF_Status* status) {
  stream->Drain();
  Ok(status);
}

void SynchronizeAll(const SP_Device* device, TF_Status* status) {
  DeviceOf(device)->Drain();
  Ok(status);
}

void CreateEvent(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = new SP_Event_st;
  Ok(status);
}

void DestroyEvent(const SP_Device*, SP_Event event) { delete event; }

SE_EventStatus EventStatus(const SP_Device*, SP_Event event) {
  const auto recording = event->Current();
  return recording == nullptr || recording->done() ? SE_EVENT_COMPLETE
                                                   : SE_EVENT_PENDING;
}

void RecordEvent(const SP_Device*, SP_Stream stream, SP_Event event,
                 TF_Status* status) {
  Record(stream, event->Renew());
  Ok(status);
}

void WaitForEvent(const SP_Device*, SP_Stream stream, SP_Event event,
                  TF_Status* status) {
  WaitFor(stream, event->Current());
  Ok(status);
}

void BlockHostForEvent(const SP_Device*, SP_Event event, TF_Status* status) {
  const auto recording = event->Current();
  if (recording != nullptr) recording->Wait();
  Ok(status);
}

void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st;
  Ok(status);
}

void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }

void StartTimer(const SP_Device*, SP_Stream stream, SP_Timer timer,
                TF_Status* status) {
  const auto span = timer->span;
  stream->Push([=] {
    span->start_ns = Nanoseconds(stream->clock().time_since_epoch());
  });
  Ok(status);
}

void StopTimer(const SP_Device*, SP_Stream stream, SP_Timer timer,
               TF_Status* status) {
  const auto span = timer->span;
  stream->Push([=] {
    span->stop_ns = Nanoseconds(stream->clock().time_since_epoch());
  });
  Ok(status);
}

uint64_t TimerNanoseconds(SP_Timer timer) {
  return timer->span->stop_ns - timer->span->start_ns;
}

TF_Bool HostCallback(const SP_Device*, SP_Stream stream,
                     SE_StatusCallbackFn callback, void* argument) {
  stream->Push([=] {
    TF_Status* status = TF_NewStatus();
    callback(argument, status);
    TF_DeleteStatus(status);
  });
  return 1;
}

// ---------------------------------------------------------------- platform

void GetDeviceCount(const SP_Platform*, int* count, TF_Status* status) {
  *count = Machine::Get().device_count();
  Ok(status);
}

void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params,
                  TF_Status* status) {
  Device* owner = &Machine::Get().device(params->ordinal);
  SP_Device* device = params->device;
  device->struct_size = SP_DEVICE_STRUCT_SIZE;
  device->ordinal = params->ordinal;
  device->device_handle = owner;
  device->hardware_name = "Emulated GPU";
  device->device_vendor = "Emulation";
  device->pci_bus_id = owner->bus_id.c_str();
  Ok(status);
}

int32_t NumaNode(const SP_Device*) { return 0; }

void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params,
                     TF_Status* status) {
  params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
  params->device_fns->get_numa_node = NumaNode;
  Ok(status);
}

void CreateStreamExecutor(const SP_Platform*,
                          SE_CreateStreamExecutorParams* params,
                          TF_Status* status) {
  SP_StreamExecutor* executor = params->stream_executor;
  executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  executor->allocate = Allocate;
  executor->deallocate = Deallocate;
  executor->host_memory_allocate = HostAllocate;
  executor->host_memory_deallocate = HostDeallocate;
  executor->get_allocator_stats = AllocatorStats;
  executor->device_memory_usage = MemoryUsage;
  executor->create_stream = CreateStream;
  executor->destroy_stream = DestroyStream;
  executor->create_stream_dependency = CreateStreamDependency;
  executor->get_stream_status = StreamStatus;
  executor->create_event = CreateEvent;
  executor->destroy_event = DestroyEvent;
  executor->get_event_status = EventStatus;
  executor->record_event = RecordEvent;
  executor->wait_for_event = WaitForEvent;
  executor->create_timer = CreateTimer;
  executor->destroy_timer = DestroyTimer;
  executor->start_timer = StartTimer;
  executor->stop_timer = StopTimer;
  executor->memcpy_dtoh = MemcpyDeviceToHost;
  executor->memcpy_htod = MemcpyHostToDevice;
  executor->memcpy_dtod = MemcpyDeviceToDevice;
  executor->sync_memcpy_dtoh = SyncMemcpyDeviceToHost;
  executor->sync_memcpy_htod = SyncMemcpyHostToDevice;
  executor->sync_memcpy_dtod = SyncMemcpyDeviceToDevice;
  executor->block_host_for_event = BlockHostForEvent;
  executor->block_host_until_done = BlockUntilDone;
  executor->synchronize_all_activity = SynchronizeAll;
  executor->mem_zero = MemZero;
  executor->memset = Memset;
  executor->memset32 = Memset32;
  executor->host_callback = HostCallback;
  Ok(status);
}

void CreateTimerFns(const SP_Platform*, SP_TimerFns* fns, TF_Status* status) {
  fns->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
  fns->nanoseconds = TimerNanoseconds;
  Ok(status);
}

}  // namespace
}  // namespace emulated_gpu

extern "C" void SE_InitPlugin(SE_PlatformRegistrationParams* params,
                              TF_Status* status) {
  SP_Platform* platform = params->platform;
  platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  platform->name = "EMULATED";
  platform->type = "GPU";
  // TensorFlow's own allocator retries for ten seconds before it says that
  // memory is exhausted.  tensorflow_device.cc has the one that is used.
  platform->use_bfc_allocator = 0;
  SP_PlatformFns* fns = params->platform_fns;
  fns->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  fns->get_device_count = emulated_gpu::GetDeviceCount;
  fns->create_device = emulated_gpu::CreateDevice;
  fns->destroy_device = [](const SP_Platform*, SP_Device*) {};
  fns->create_device_fns = emulated_gpu::CreateDeviceFns;
  fns->destroy_device_fns = [](const SP_Platform*, SP_DeviceFns*) {};
  fns->create_stream_executor = emulated_gpu::CreateStreamExecutor;
  fns->destroy_stream_executor = [](const SP_Platform*, SP_StreamExecutor*) {};
  fns->create_timer_fns = emulated_gpu::CreateTimerFns;
  fns->destroy_timer_fns = [](const SP_Platform*, SP_TimerFns*) {};
  params->destroy_platform = [](SP_Platform*) {};
  params->destroy_platform_fns = [](SP_PlatformFns*) {};
  emulated_gpu::Ok(status);
}
