// Stands in for the CUDA driver: FAKE_CUDA_ORDER="3,0" gives this process the GPUs at the PCI
// addresses of fake_driver/pynvml.py's GPUs 3 and 0, in this order.  Neighbours in the list have
// peer access to each other.
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

static std::vector<int> Order() {
  const char* text = std::getenv("FAKE_CUDA_ORDER");
  std::vector<int> order;
  std::istringstream stream(text == nullptr ? "" : text);
  for (std::string index; std::getline(stream, index, ',');) order.push_back(std::stoi(index));
  return order;
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
int cuDeviceCanAccessPeer(int* can, int a, int b) {
  *can = std::abs(a - b) == 1;
  return 0;
}
}
