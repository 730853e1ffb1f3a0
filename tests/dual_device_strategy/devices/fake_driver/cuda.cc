// Stands in for the CUDA driver: FAKE_CUDA_ORDER="3,0" gives this process the GPUs at the PCI
// addresses of fake_driver/pynvml.py's GPUs 3 and 0, in this order.  Neighbours in the list have
// peer access to each other.  FAKE_CUDA_MEMORY_MB and FAKE_CUDA_MULTIPROCESSORS list a figure for
// each of the machine's GPUs.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

static std::vector<int> Numbers(const char* variable) {
  const char* text = std::getenv(variable);
  std::vector<int> numbers;
  std::istringstream stream(text == nullptr ? "" : text);
  for (std::string one; std::getline(stream, one, ',');) numbers.push_back(std::stoi(one));
  return numbers;
}

static std::vector<int> Order() { return Numbers("FAKE_CUDA_ORDER"); }

static int Figure(const char* variable, int device, int otherwise) {
  const std::vector<int> figures = Numbers(variable);
  return figures.empty() ? otherwise : figures.at(Order().at(device));
}

extern "C" {
int cuInit(unsigned) { return Order().empty() ? 100 : 0; }
int cuDeviceGetCount(int* count) {
  *count = Order().size();
  return 0;
}
int cuDeviceGetPCIBusId(char* text, int length, int device) {
  std::snprintf(text, length, "0000:%d0:00.0", Order().at(device) + 1);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) {
  *bytes = static_cast<size_t>(Figure("FAKE_CUDA_MEMORY_MB", device, 24576)) << 20;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 16 ? Figure("FAKE_CUDA_MULTIPROCESSORS", device, 64) : 1500000;
  return 0;
}
int cuDeviceCanAccessPeer(int* can, int a, int b) {
  *can = std::abs(a - b) == 1;
  return 0;
}
}
