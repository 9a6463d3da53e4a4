/* PointMaze on MuJoCo's library, for the test with the tag libmujoco. Argument:
 * the scene. Input, one line each: "E" and 4 numbers set position and velocity;
 * "S" and 2 numbers make an env step. After each line position and velocity in hexadecimal. */
#include <mujoco/mujoco.h>
#include <stdio.h>

static double clip(double v, double bound) { return v > bound ? bound : v < -bound ? -bound : v; }

int main(int argc, char **argv) {
	char error[500], kind;
	double a, b;
	int i;
	mjModel *m = mj_loadXML(argv[argc - 1], NULL, error, sizeof error);
	mjData *d;
	if (!m) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	d = mj_makeData(m);
	while (scanf(" %c %lf %lf", &kind, &a, &b) == 3) {
		if (kind == 'E') {
			mj_resetData(m, d);
			d->qpos[0] = a, d->qpos[1] = b;
			if (scanf("%lf %lf", &d->qvel[0], &d->qvel[1]) != 2)
				return 1;
			mj_forward(m, d);
		} else {
			for (i = 0; i < 2; i++)
				d->qvel[i] = clip(d->qvel[i], 5);
			mj_forward(m, d);
			d->ctrl[0] = clip(a, 1), d->ctrl[1] = clip(b, 1);
			for (i = 0; i < 5; i++)
				mj_step(m, d);
		}
		printf("%a %a %a %a\n", d->qpos[0], d->qpos[1], d->qvel[0], d->qvel[1]);
		fflush(stdout);
	}
	return 0;
}
