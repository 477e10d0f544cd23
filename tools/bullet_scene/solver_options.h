// The options of linchpin in Bullet that a scene chooses.
#pragma once

#include <linchpin/bullet.h>
#include <linchpin/scene.h>

namespace linchpin::bullet_scene {

/// Returns the options of the exact solver for a scene. What the scene leaves at its default is that of the host.
bullet::Options solver_options(const scene::Model& model);

}  // namespace linchpin::bullet_scene
