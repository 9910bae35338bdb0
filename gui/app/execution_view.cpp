#include "gui/app/execution_view.hpp"

#include <QComboBox>
#include <QCoreApplication>
#include <QFile>
#include <QFontDatabase>
#include <QFormLayout>
#include <QLabel>
#include <QLineEdit>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QSpinBox>
#include <QStandardPaths>
#include <QTemporaryDir>
#include <QTimer>
#include <QVBoxLayout>

namespace orrery {
namespace {

constexpr int log_lines = 5000;
constexpr int kill_after_ms = 5000;     // between the polite signal, which writes a checkpoint, and the other

} // namespace

QString find_simexec() {
    const QString beside = QCoreApplication::applicationDirPath() + QStringLiteral("/simexec");
    return QFile::exists(beside) ? beside : QStandardPaths::findExecutable(QStringLiteral("simexec"));
}

ExecutionView::ExecutionView(RunStore& store, ViewState& state, Documents& documents, QWidget* parent)
    : QWidget(parent), store_(store), state_(state), documents_(documents), program_(new QLineEdit(find_simexec())), executor_(new QComboBox), steps_(new QSpinBox),
      more_(new QLineEdit), run_(new QPushButton(tr("Run for real"))), words_(new QLabel), log_(new QPlainTextEdit) {
    layOut();
    process_.setProcessChannelMode(QProcess::MergedChannels);
    connect(&process_, &QProcess::readyRead, this, &ExecutionView::read);
    connect(&process_, &QProcess::finished, this, &ExecutionView::over);
    connect(&process_, &QProcess::errorOccurred, this, [this](QProcess::ProcessError error) {
        if (error != QProcess::FailedToStart) return;
        Q_EMIT failed(tr("simexec"), tr("%1 could not be started: %2").arg(process_.program(), process_.errorString()));
        refresh();
    });
    connect(run_, &QPushButton::clicked, this, [this] { running() ? stop() : start(); });
    connect(program_, &QLineEdit::textChanged, this, &ExecutionView::refresh);
    connect(&documents_, &Documents::currentChanged, this, &ExecutionView::refresh);
    refresh();
}

ExecutionView::~ExecutionView() {
    process_.disconnect(this);
    if (!running()) return;
    process_.kill();
    process_.waitForFinished(kill_after_ms);
}

void ExecutionView::layOut() {
    program_->setPlaceholderText(tr("path of simexec"));
    program_->setAccessibleName(tr("Program"));
    executor_->setEditable(true);
    executor_->addItems({QStringLiteral("serial"), QStringLiteral("threads")});
    executor_->setAccessibleName(tr("Executor"));
    steps_->setRange(1, 1000000);
    steps_->setValue(5);
    steps_->setAccessibleName(tr("Steps"));
    more_->setPlaceholderText(tr("further arguments, as --text FILE"));
    more_->setAccessibleName(tr("Further arguments"));
    log_->setReadOnly(true);
    log_->setMaximumBlockCount(log_lines);
    log_->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    log_->setAccessibleName(tr("Output of simexec"));
    words_->setWordWrap(true);
    auto* form = new QFormLayout;
    form->addRow(tr("Program"), program_);
    auto* row = new QHBoxLayout;
    row->addWidget(executor_);
    row->addWidget(new QLabel(tr("steps")));
    row->addWidget(steps_);
    row->addWidget(more_, 1);
    row->addWidget(run_);
    form->addRow(tr("Executor"), row);
    auto* layout = new QVBoxLayout(this);
    layout->addLayout(form);
    layout->addWidget(words_);
    layout->addWidget(log_, 1);
}

void ExecutionView::setProgram(const QString& path) { program_->setText(path); }

QString ExecutionView::log() const { return log_->toPlainText(); }

void ExecutionView::refresh() {
    const bool there = !program_->text().isEmpty() && QFile::exists(program_->text()), scenario = documents_.current() != nullptr;
    run_->setText(running() ? tr("Stop") : tr("Run for real"));
    run_->setEnabled(running() || (there && scenario));
    if (running()) words_->setText(tr("running %1").arg(name_));
    else if (!there) words_->setText(tr("simexec is not here: build it, or name its path"));
    else if (!scenario) words_->setText(tr("Choose a run with a scenario first"));
    else words_->setText(tr("The plan of the current scenario, on this machine; the trace of its last step is laid over the prediction"));
}

QStringList ExecutionView::arguments(const QString& scenario, const QString& trace) const {
    QStringList words{QStringLiteral("run"), scenario, QStringLiteral("--executor"), executor_->currentText(), QStringLiteral("--steps"), QString::number(steps_->value()),
                      QStringLiteral("--trace"), trace, QStringLiteral("-v")};
    return words + QProcess::splitCommand(more_->text());
}

// Relative paths of the scenario start from its own folder: that is where its copy is written, or the temporary one has to do.
void ExecutionView::start() {
    ScenarioDocument* document = documents_.current();
    if (running() || !document) return;
    folder_ = std::make_unique<QTemporaryDir>();
    const QString scenario = folder_->filePath(QStringLiteral("scenario.json"));
    QFile file(scenario);
    if (!folder_->isValid() || !file.open(QIODevice::WriteOnly) || file.write(QByteArray::fromStdString(document->text())) < 0) {
        Q_EMIT failed(tr("simexec"), tr("the scenario could not be written to %1").arg(scenario));
        return;
    }
    file.close();
    prediction_ = documents_.currentRun();
    const Run* run = store_.find(prediction_);
    name_ = run ? run->name : QString{};
    stopping_ = false;
    log_->clear();
    if (!document->baseDir().empty()) process_.setWorkingDirectory(QString::fromStdString(document->baseDir()));
    const QStringList words = arguments(scenario, folder_->filePath(QStringLiteral("measured.trace")));
    log_->appendPlainText(QStringLiteral("$ simexec ") + words.join(QLatin1Char(' ')));
    process_.start(program_->text(), words);
    refresh();
}

void ExecutionView::stop() {
    stopping_ = true;
    process_.terminate();
    QTimer::singleShot(kill_after_ms, this, [this] {
        if (running() && stopping_) process_.kill();
    });
}

void ExecutionView::read() {
    const QString text = QString::fromUtf8(process_.readAll());
    if (text.isEmpty()) return;
    log_->appendPlainText(text.endsWith(QLatin1Char('\n')) ? text.chopped(1) : text);
}

void ExecutionView::over(int code, QProcess::ExitStatus status) {
    read();
    refresh();
    const QString trace = folder_->filePath(QStringLiteral("measured.trace"));
    const bool good = status == QProcess::NormalExit && code == 0 && QFile::exists(trace);
    log_->appendPlainText(stopping_ ? tr("stopped") : status == QProcess::CrashExit ? tr("it crashed") : tr("exit code %1").arg(code));
    if (stopping_) return;
    if (!good) {
        const QString last = log_->toPlainText().section(QLatin1Char('\n'), -2, -2);
        Q_EMIT failed(tr("simexec"), tr("%1: exit code %2: %3").arg(name_).arg(code).arg(last));
        return;
    }
    const RunId run = store_.loadTrace(trace);
    store_.rename(run, tr("%1, measured").arg(name_));
    Q_EMIT measured(run, prediction_);
}

} // namespace orrery
