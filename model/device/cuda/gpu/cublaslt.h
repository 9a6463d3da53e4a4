// cublaslt.h: GEMM by NVIDIA's cublasLt, to measure the GPU's peak rate. The library is
// opened at run time, and only for this.
#ifndef CUBLASLT_H
#define CUBLASLT_H
#include <cuda.h>
#include <stdint.h>

// Product is a prepared GEMM of one size.
typedef struct Product Product;

// product_open prepares c = a transpose(b) of n x n row-major matrices, in bf16 or in
// fp32 without TF32. It returns NULL and sets *missing to the reason if the library is
// not found or does not support it.
Product *product_open(int n, int bf16, const char **missing);
// product_run queues the GEMM on a stream and returns the library's status, 0 for success.
int product_run(Product *p, CUdeviceptr c, CUdeviceptr a, CUdeviceptr b, CUdeviceptr work, CUstream stream);
void product_close(Product *p);

// product_work is the size in bytes of the workspace that product_run receives.
enum { product_work = 32 << 20 };

#endif
