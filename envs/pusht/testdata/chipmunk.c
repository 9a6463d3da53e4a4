/* Push-T on the Chipmunk library (7.0.3), for the test with the tag chipmunk.
 * Input, one line each: "E" and 12 numbers make a new world (setup pose, then a
 * state to set); "S" and 2 numbers make an env step towards a target. After each
 * line, "=" and agent x, y, block x, y, angle in hexadecimal and the contact points of
 * the sub-steps since the line before. */
#include <chipmunk/chipmunk.h>
#include <stdio.h>

static int points;

static void count(cpArbiter *arb, cpSpace *space, cpDataPointer data) { points += cpArbiterGetCount(arb); }

static cpSpace *space;
static cpBody *agent, *block;

static void make(const double *v) {
	static const double wall[4][4] = {{5, 506, 5, 5}, {5, 5, 506, 5}, {506, 5, 506, 506}, {5, 506, 506, 506}};
	cpVect bar[] = {{-60, 30}, {60, 30}, {60, 0}, {-60, 0}}, stem[] = {{-15, 30}, {-15, 120}, {15, 120}, {15, 30}};
	int i;
	space = cpSpaceNew();
	cpSpaceSetDamping(space, 0);
	for (i = 0; i < 4; i++)
		cpSpaceAddShape(space, cpSegmentShapeNew(cpSpaceGetStaticBody(space), cpv(wall[i][0], wall[i][1]), cpv(wall[i][2], wall[i][3]), 2));
	agent = cpSpaceAddBody(space, cpBodyNewKinematic());
	cpBodySetPosition(agent, cpv(v[0], v[1]));
	cpSpaceAddShape(space, cpCircleShapeNew(agent, 15, cpvzero));
	block = cpBodyNew(1, 3000);
	cpBodySetCenterOfGravity(block, cpv(0, 45));
	cpBodySetAngle(block, v[4]);
	cpBodySetPosition(block, cpv(v[2], v[3]));
	cpSpaceAddBody(space, block);
	cpSpaceAddShape(space, cpPolyShapeNew(block, 4, bar, cpTransformIdentity, 0));
	cpSpaceAddShape(space, cpPolyShapeNew(block, 4, stem, cpTransformIdentity, 0));
	cpSpaceAddDefaultCollisionHandler(space)->postSolveFunc = count;
}

static void set(const double *s) {
	cpBodySetVelocity(agent, cpv(s[5], s[6]));
	cpBodySetPosition(agent, cpv(s[0], s[1]));
	cpBodySetAngle(block, s[4]);
	cpBodySetPosition(block, cpv(s[2], s[3]));
	cpSpaceStep(space, 0.01);
}

static void follow(double x, double y) {
	int i;
	for (i = 0; i < 10; i++) {
		cpVect p = cpBodyGetPosition(agent), v = cpBodyGetVelocity(agent);
		double ax = 100 * (x - p.x) + 20 * (0 - v.x), ay = 100 * (y - p.y) + 20 * (0 - v.y);
		cpBodySetVelocity(agent, cpv(v.x + ax * 0.01, v.y + ay * 0.01));
		cpSpaceStep(space, 0.01);
	}
}

int main(void) {
	char kind;
	double v[12];
	int i;
	while (scanf(" %c", &kind) == 1) {
		for (i = 0; i < (kind == 'E' ? 12 : 2); i++)
			if (scanf("%la", v + i) != 1) return 1;
		points = 0;
		if (kind == 'E') {
			make(v);
			set(v + 5);
		} else {
			follow(v[0], v[1]);
		}
		cpVect p = cpBodyGetPosition(agent), b = cpBodyGetPosition(block);
		printf("= %a %a %a %a %a %d\n", p.x, p.y, b.x, b.y, cpBodyGetAngle(block), points);
		fflush(stdout);
	}
	return 0;
}
