// Light and dark on the Fusion style: Qt 6.4 does not tell which one the desktop wants, so the choice is the user's.
#pragma once

#include <QPalette>

class QApplication;

namespace orrery {

enum class Theme { light, dark };

QPalette palette_of(Theme theme);
void apply_theme(QApplication& application, Theme theme);

} // namespace orrery
