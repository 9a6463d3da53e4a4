// isa_plain.c: the kernels for any machine.
#define _GNU_SOURCE
#include "engine.h"
#include "vec_plain.h"
#define VEC_BF16 0
#define TILES 0
#define TABLE kernels_plain
#include "kernels.h"
