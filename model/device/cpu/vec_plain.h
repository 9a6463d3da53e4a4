// vec_plain.h: the vector operations for any machine, by gcc's vector extensions: 4
// floats. See vec_avx2.h for what each header defines. vfma rounds twice here.
#include <math.h>
#include <string.h>

#define VL 4
#define IOTA 0, 1, 2, 3
#define TILE_VECTORS 2
static const int tile_rows[3] = {0, 8, 6};

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));

static inline vf vset(float x) { return (vf){x, x, x, x}; }
static inline vf vload(const float *p) {
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}
static inline void vstore(float *p, vf v) { memcpy(p, &v, sizeof v); }
static inline vf vloadn(const float *p, i64 n) {
	vf v = {0};
	for (i64 i = 0; i < n; i++) v[i] = p[i];
	return v;
}
static inline void vstoren(float *p, vf v, i64 n) {
	for (i64 i = 0; i < n; i++) p[i] = v[i];
}
static inline vf vfma(vf a, vf b, vf c) { return a * b + c; }
// vpick returns t where the mask m is set, else f.
static inline vf vpick(vi m, vf t, vf f) { return (vf)((m & (vi)t) | (~m & (vi)f)); }
// As on x86: the second operand if either is NaN.
static inline vf vmax(vf a, vf b) { return vpick(a > b, a, b); }
static inline vf vmin(vf a, vf b) { return vpick(a < b, a, b); }
static inline vf vsqrt(vf a) {
	for (int i = 0; i < VL; i++) a[i] = sqrtf(a[i]);
	return a;
}
static inline vf vless(vf a, vf b, vf t, vf f) { return vpick(a < b, t, f); }
static inline vu vmul_wide(vu a, uint32_t m, vu *lo) {
	vu hi;
	for (int i = 0; i < VL; i++) {
		uint64_t p = (uint64_t)a[i] * m;
		(*lo)[i] = (uint32_t)p;
		hi[i] = (uint32_t)(p >> 32);
	}
	return hi;
}
