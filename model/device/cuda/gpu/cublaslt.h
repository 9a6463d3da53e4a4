// cublaslt.h: one product by NVIDIA's own library, to know what the GPU can do.
// The library is opened when asked for; nothing else here needs it.
#ifndef CUBLASLT_H
#define CUBLASLT_H
#include <cuda.h>
#include <stdint.h>

typedef struct Product Product;

// product_open prepares c = a transpose(b) of n x n matrices in bf16 or
// in fp32 without TF32. It returns NULL and sets *missing where there is no
// library, or one that cannot do it.
Product *product_open(int n, int bf16, const char **missing);
int product_run(Product *p, CUdeviceptr c, CUdeviceptr a, CUdeviceptr b, CUdeviceptr work, CUstream stream);
void product_close(Product *p);

// product_work is the size of the workspace that product_run is given.
enum { product_work = 32 << 20 };

#endif
