// Planted fault: an array that is indexed by what it holds lies in local memory.
extern "C" __global__ void planted_local(int *values, int n) {
  int kept[64];
  for (int i = 0; i < 64; i++)
    kept[i] = values[i * n];
  for (int i = 0; i < n; i++)
    kept[(i * 7 + kept[i % 64]) & 63] += i;
  for (int i = 0; i < 64; i++)
    values[i] += kept[i];
}
