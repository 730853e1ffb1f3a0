// Random work on streams, events and memory by several threads, through the
// table of functions that TensorFlow uses.  Meant for sanitizers.
//
//     streams_stress ROUNDS

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "controls.h"
#include "machine.h"
#include "stream.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"

// The plugin needs no more of TensorFlow than this, which is instrumented.
struct TSL_Status {
  TF_Code code = TF_OK;
};
extern "C" {
TF_Status* TF_NewStatus(void) { return new TF_Status; }
void TF_DeleteStatus(TF_Status* status) { delete status; }
void TF_SetStatus(TF_Status* status, TF_Code code, const char*) {
  status->code = code;
}
}

#define CHECK(condition)                                    \
  if (!(condition)) {                                       \
    std::printf("line %d: %s\n", __LINE__, #condition);     \
    std::exit(1);                                           \
  }

namespace {

constexpr int kDevices = 2, kStreams = 6, kThreads = 8;

struct Plugin {
  SP_Platform platform{};
  SP_PlatformFns fns{};
  SP_Device devices[kDevices]{};
  SP_StreamExecutor se{};

  Plugin() {
    const int64_t limits[kDevices] = {1 << 20, 1 << 20};
    emulated_gpu_configure(kDevices, limits, 100, 1, 100, 1);
    TF_Status status;
    SE_PlatformRegistrationParams registration{};
    registration.platform = &platform;
    registration.platform_fns = &fns;
    SE_InitPlugin(&registration, &status);
    int count = 0;
    fns.get_device_count(&platform, &count, &status);
    CHECK(count == kDevices);
    for (int i = 0; i < kDevices; ++i) {
      SE_CreateDeviceParams params{};
      params.ordinal = i;
      params.device = &devices[i];
      fns.create_device(&platform, &params, &status);
    }
    SE_CreateStreamExecutorParams params{};
    params.stream_executor = &se;
    fns.create_stream_executor(&platform, &params, &status);
  }
};

// A stream that is destroyed and made anew while others still use its work.
struct Slot {
  std::mutex mutex;
  const SP_Device* device = nullptr;
  SP_Stream stream = nullptr;
};

class Worker {
 public:
  Worker(Plugin& plugin, std::vector<Slot>& slots, int seed)
      : plugin_(plugin), slots_(slots), random_(seed) {}

  void Run(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      switch (random_() % 8) {
        case 0: Renew(); break;
        case 1: Exhaust(); break;
        case 2: Read(); break;
        default: PassOn();
      }
    }
  }

 private:
  SP_StreamExecutor& se() { return plugin_.se; }
  Slot& Any() { return slots_[random_() % slots_.size()]; }

  // Replaces a stream, with whatever is still enqueued on it.
  void Renew() {
    Slot& slot = Any();
    std::lock_guard<std::mutex> lock(slot.mutex);
    se().destroy_stream(slot.device, slot.stream);
    se().create_stream(slot.device, &slot.stream, &status_);
  }

  // More memory than there is, several times over: null, and no harm.
  void Exhaust() {
    const SP_Device* device = &plugin_.devices[random_() % kDevices];
    std::vector<SP_DeviceMemoryBase> taken;
    for (int i = 0; i < 12; ++i) {
      SP_DeviceMemoryBase memory{};
      se().allocate(device, 100'000 + random_() % 100'000, 0, &memory);
      if (memory.opaque != nullptr) taken.push_back(memory);
    }
    CHECK(taken.size() <= 11);
    for (SP_DeviceMemoryBase& memory : taken) se().deallocate(device, &memory);
  }

  // What another thread may read at any moment.
  void Read() {
    const int device = random_() % kDevices;
    void* watch = emulated_gpu_begin_watch(device);
    EmulatedGpuStats stats;
    emulated_gpu_stats(device, &stats);
    CHECK(stats.memory_live <= stats.memory_limit && stats.compute_ns >= 0);
    CHECK(emulated_gpu_watched_peak(watch) <= stats.memory_limit);
    emulated_gpu_end_watch(watch);
  }

  // A number goes to a device on one stream and comes back on another, ordered
  // by an event that is recorded twice and destroyed while streams still wait.
  void PassOn() {
    Slot& first = Any();
    Slot& second = Any();
    std::unique_lock<std::mutex> one(first.mutex), two;
    if (&first != &second) {
      two = std::unique_lock<std::mutex>(second.mutex, std::try_to_lock);
      if (!two) return;
    }
    const SP_Device* device = first.device;
    SP_Stream a = first.stream, b = second.stream;
    SP_DeviceMemoryBase memory{};
    se().allocate(device, 4096, 0, &memory);
    if (memory.opaque == nullptr) return;  // another thread exhausts it
    const int in = static_cast<int>(random_());
    int out = 0, seen = in;
    SP_Event event;
    se().create_event(device, &event, &status_);
    CHECK(se().get_event_status(device, event) == SE_EVENT_COMPLETE);
    se().record_event(second.device, b, event, &status_);
    se().wait_for_event(device, a, event, &status_);
    se().memcpy_htod(device, a, &memory, &in, sizeof(in), &status_);
    if (random_() % 2) a->Push([=] { a->Compute(emulated_gpu::Seconds(1e-5)); });
    se().record_event(device, a, event, &status_);
    se().wait_for_event(second.device, b, event, &status_);
    if (random_() % 2) se().block_host_for_event(device, event, &status_);
    se().destroy_event(device, event);
    se().create_stream_dependency(second.device, b, a, &status_);
    if (random_() % 3 == 0) {
      seen = 0;
      b->RunHere([&] {  // enqueues in its own turn, and takes memory
        se().memcpy_dtoh(second.device, b, &seen, &memory, sizeof(int), &status_);
        SP_DeviceMemoryBase scratch{};
        se().allocate(second.device, 100, 0, &scratch);
        se().deallocate(second.device, &scratch);
      });
    }
    SP_Timer timer;
    se().create_timer(device, &timer, &status_);
    se().start_timer(device, b, timer, &status_);
    se().memcpy_dtoh(second.device, b, &out, &memory, sizeof(out), &status_);
    se().stop_timer(device, b, timer, &status_);
    se().destroy_timer(device, timer);
    if (random_() % 4 == 0) {  // a callback that itself enqueues
      struct Call {
        Worker* worker;
        SP_Stream stream;
      };
      se().host_callback(second.device, b,
                         [](void* argument, TF_Status*) {
                           auto* call = static_cast<Call*>(argument);
                           SP_Stream stream = call->stream;
                           stream->Push([] {});
                           stream->Drain();  // of itself: must not wait
                           delete call;
                         },
                         new Call{this, b});
    }
    if (random_() % 4 == 0) {
      // Destroyed with its work enqueued, and waited for through an event.
      SP_Event end;
      se().create_event(second.device, &end, &status_);
      se().record_event(second.device, b, end, &status_);
      se().destroy_stream(second.device, b);
      se().block_host_for_event(second.device, end, &status_);
      se().destroy_event(second.device, end);
      se().create_stream(second.device, &second.stream, &status_);
    } else {
      se().block_host_until_done(second.device, b, &status_);
    }
    CHECK(out == in && seen == in);
    se().deallocate(device, &memory);  // waits for the device's streams
  }

  Plugin& plugin_;
  std::vector<Slot>& slots_;
  std::mt19937 random_;
  TF_Status status_;
};

}  // namespace

int main(int, char** arguments) {
  const int rounds = std::atoi(arguments[1]);
  Plugin plugin;
  TF_Status status;
  std::vector<Slot> slots(kStreams);
  for (int i = 0; i < kStreams; ++i) {
    slots[i].device = &plugin.devices[i % kDevices];
    plugin.se.create_stream(slots[i].device, &slots[i].stream, &status);
  }
  std::vector<std::thread> threads;
  for (int seed = 0; seed < kThreads; ++seed) {
    threads.emplace_back([&, seed] { Worker(plugin, slots, seed).Run(rounds); });
  }
  for (std::thread& thread : threads) thread.join();
  long long in = 0;
  for (int i = 0; i < kDevices; ++i) {
    plugin.se.synchronize_all_activity(&plugin.devices[i], &status);
    EmulatedGpuStats stats;
    emulated_gpu_stats(i, &stats);
    CHECK(stats.memory_live == 0 && stats.memory_peak > 0);
    in += stats.bytes_in;
  }
  // Leaves with streams alive and work enqueued on one of them.
  slots[0].stream->Push([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
  std::printf("ok: %d rounds, %lld bytes in\n", kThreads * rounds, in);
}
