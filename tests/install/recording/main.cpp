// A Bullet program without scene files or the command: one line to record, one call for a page.
#include <linchpin/bullet_recorder.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

static std::string text_of(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
static int wrong(const char* what) {
  std::printf("wrong: %s\n", what);
  return 1;
}

int main() {
  btSphereShape ball(btScalar(0.1));
  btRigidBody bob(1, nullptr, &ball, btVector3(btScalar(0.004), btScalar(0.004), btScalar(0.004)));
  btPoint2PointConstraint pivot(bob, btVector3(1, 0, 0));
  btDefaultCollisionConfiguration config;
  btCollisionDispatcher dispatcher(&config);
  btDbvtBroadphase broadphase;
  btSequentialImpulseConstraintSolver native;
  btDiscreteDynamicsWorld world(&dispatcher, &broadphase, &native, &config);
  world.addRigidBody(&bob);
  world.addConstraint(&pivot);
  int bad = 0;
  {
    linchpin::bullet::Solver exact(world);
    linchpin::bullet::Recorder recorder(exact, world, {.title = "a pendulum </script>"});
    recorder.name(bob, "bob");
    if (recorder.try_write(FOLDER "early.html").error().kind != linchpin::ErrorKind::order)
      bad += wrong("a page of nothing was written");
    for (int i = 0; i < 240; ++i) world.stepSimulation(btScalar(1) / 240, 0);
    for (const char* file : {"run.html", "run.rec", "run.glb", "run.gltf", "run.mcap"}) {
      const std::string why = recorder.try_write(std::string(FOLDER) + file).error().message;
      if (!why.empty()) bad += wrong(why.c_str());
    }
    const std::string refused = recorder.try_write(FOLDER "run.txt").error().message;
    if (refused.find("run.txt\": expected a name that ends with .html") == std::string::npos)
      bad += wrong(("refused with: " + refused).c_str());
    const linchpin::Error missing = recorder.try_write("/no/such/folder/run.html").error();
    if (missing.kind != linchpin::ErrorKind::file || missing.message.find("/no/such/folder") == std::string::npos)
      bad += wrong("a folder that is not there");
  }
  const std::string page = text_of(FOLDER "run.html"), recording = text_of(FOLDER "run.rec");
  if (page.find("<!doctype html>") != 0 && page.find("<!DOCTYPE html>") != 0) bad += wrong("run.html is no page");
  if (page.find("a pendulum \\u003c/script>") == std::string::npos) bad += wrong("the page has no title");
  for (const char* word : {"\"kind\":\"linchpin recording\"", "\"frames\":241", "\"every\":1", "\"name\":\"bob\"",
                           "\"name\":\"point2point#0\"", "\"shape\":\"sphere\"", "\"host\":\"Bullet Physics "})
    if (recording.find(word) == std::string::npos) bad += wrong(word);
  if (text_of(FOLDER "run.glb").substr(0, 4) != "glTF") bad += wrong("run.glb");
  if (text_of(FOLDER "run.mcap").substr(1, 4) != "MCAP") bad += wrong("run.mcap");
  world.removeConstraint(&pivot);
  return bad;
}
