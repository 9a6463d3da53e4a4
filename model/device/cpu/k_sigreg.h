// k_sigreg.h: SIGReg (docs/sources.md#sigreg), the distance between the empirical
// characteristic function of projected latents and that of the standard normal
// distribution at 17 points t_k = 3k/16:
//
//   clips/(T M) sum_k w_k |mean over clips of exp(i t_k u) - exp(-t_k^2/2)|^2,
//
// where w_k is the trapezoidal weight times exp(-t_k^2/2).
//
// A task computes VL projections at one frame of all clips. exp(i t_k u) is computed
// from one sine and cosine, of t_1 u, by complex multiplication from knot to knot.
// Each adds an error of at most 1e-7, 1.5e-6 at the last knot, with random signs over
// the clips.
//
// Memory traffic: u is read once for the sums and, if the gradient is given, once
// more, when du is written. The powers are recomputed for the gradient, since storing
// them would take 32 numbers for each u. The sums stay in the L1 cache.

// Number of points t_k.
enum { KNOTS = 17 };

// SIGReg holds the knots t, the normal's characteristic function ref and the weights at
// them, and the partial loss of each task. blocks is the number of vectors of
// projections.
typedef struct {
	const SIGRegArgs *a;
	i64 clips, blocks;
	float t[KNOTS], ref[KNOTS], weight[KNOTS];
	double *partial;
} SIGReg;

// sigreg_knots computes the knots. The weights are those of the trapezoidal rule,
// doubled (2 step at inner knots, step at both ends), times the window exp(-t^2/2),
// which is also ref.
static void sigreg_knots(SIGReg *s) {
	const double step = 3.0 / 16;
	for (int k = 0; k < KNOTS; k++) {
		double t = step * k, ref = exp(-t * t / 2);
		s->t[k] = (float)t;
		s->ref[k] = (float)ref;
		s->weight[k] = (float)((k == 0 || k == KNOTS - 1 ? step : 2 * step) * ref);
	}
}

// rotate multiplies the complex number c + i s by c1 + i s1.
static inline void rotate(vf *c, vf *s, vf c1, vf s1) {
	vf c0 = *c;
	*c = vfma(c0, c1, -(*s * s1));
	*s = vfma(c0, s1, *s * c1);
}

// sigreg_sums computes c_k - ref_k and s_k, the means over clips of cosine and sine.
// The first knot's term is zero and is skipped: at t = 0 both functions are 1.
static void sigreg_sums(const SIGReg *p, i64 frame, i64 col, i64 n, vf *c, vf *s) {
	const SIGRegArgs *a = p->a;
	for (int k = 1; k < KNOTS; k++) c[k] = s[k] = vset(0.0f);
	for (i64 b = 0; b < p->clips; b++) {
		vf u = vloadn(a->u.p + (b * a->frames + frame) * a->u.stride + col, n), s1, c1;
		vsincos(u * vset(p->t[1]), &s1, &c1);
		vf sk = s1, ck = c1;
		for (int k = 1; k < KNOTS; k++) {
			c[k] += ck;
			s[k] += sk;
			rotate(&ck, &sk, c1, s1);
		}
	}
	vf inv = vset(1.0f / (float)p->clips);
	for (int k = 1; k < KNOTS; k++) {
		c[k] = c[k] * inv - vset(p->ref[k]);
		s[k] *= inv;
	}
}

// sigreg_grads writes the gradient of one frame: weight/(T M) sum_k 2 w_k t_k (s_k
// cos t_k u - (c_k - ref_k) sin t_k u). It scales c and s in place.
static void sigreg_grads(const SIGReg *p, i64 frame, i64 col, i64 n, vf *c, vf *s) {
	const SIGRegArgs *a = p->a;
	double scale = 2 * a->weight / ((double)a->frames * (double)a->u.cols);
	for (int k = 1; k < KNOTS; k++) {
		vf w = vset((float)(scale * p->weight[k] * p->t[k]));
		c[k] *= w;
		s[k] *= w;
	}
	for (i64 b = 0; b < p->clips; b++) {
		i64 r = b * a->frames + frame;
		vf u = vloadn(a->u.p + r * a->u.stride + col, n), g = vset(0.0f), s1, c1;
		vsincos(u * vset(p->t[1]), &s1, &c1);
		vf sk = s1, ck = c1;
		for (int k = 1; k < KNOTS; k++) {
			g = vfma(s[k], ck, g) - c[k] * sk;
			rotate(&ck, &sk, c1, s1);
		}
		vstoren(a->du.p + r * a->du.stride + col, g, n);
	}
}

static void sigreg_task(const void *args, i64 i, Worker *w) {
	(void)w;
	const SIGReg *p = args;
	i64 frame = i / p->blocks, col = i % p->blocks * VL, n = imin(VL, p->a->u.cols - col);
	vf c[KNOTS], s[KNOTS], total = vset(0.0f);
	sigreg_sums(p, frame, col, n, c, s);
	for (int k = 1; k < KNOTS; k++) total = vfma(vset(p->weight[k]), vfma(c[k], c[k], s[k] * s[k]), total);
	float lanes[VL];
	vstore(lanes, total);
	p->partial[i] = 0;
	for (i64 j = 0; j < n; j++) p->partial[i] += lanes[j];
	if (p->a->du.p) sigreg_grads(p, frame, col, n, c, s);
}

// sigreg adds the partial losses of the tasks in order, in double precision.
static int sigreg(Pool *pool, const void *args) {
	const SIGRegArgs *a = args;
	SIGReg p = {.a = a, .clips = a->u.rows / a->frames, .blocks = (a->u.cols + VL - 1) / VL};
	sigreg_knots(&p);
	i64 tasks = a->frames * p.blocks;
	if (pool_reserve(pool, 0, tasks * sizeof(double))) return NO_MEMORY;
	p.partial = pool_shared(pool);
	pool_run(pool, sigreg_task, &p, tasks);
	double total = 0;
	for (i64 i = 0; i < tasks; i++) total += p.partial[i];
	*a->loss.p = (float)(total * (double)p.clips / ((double)a->frames * (double)a->u.cols));
	return OK;
}
