// What Qt's meta-object compiler reads before every file: see CMakeLists.txt.
#pragma once

#include <string>
